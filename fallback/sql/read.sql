-- Reads rows.
-- $1 bytea[] digest
-- returns {record}, response
SELECT {record}, k.response
FROM unnest($1::bytea[]) AS q(digest)
JOIN {schema}.idempotency_keys AS k ON k.digest = q.digest
