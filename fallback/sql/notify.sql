-- Sends hints (R19), never in the transaction of a completion.
-- $1 text channel; $2 text[] payloads
SELECT pg_notify($1, payload) FROM unnest($2::text[]) AS payload
