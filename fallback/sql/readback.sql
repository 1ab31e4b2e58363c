-- Reads the rows that stand in the way of the claims of a batch that were not
-- granted. A transaction of its own, in the same round trip as the claim, when
-- the batch before lost claims too; else sql/read.sql reads the lost ones.
-- $1 bytea[] digest; $2 bytea[] token
-- returns {record}, response, for rows under another token
SELECT {record}, k.response
FROM unnest($1::bytea[], $2::bytea[]) AS q(digest, token)
JOIN {schema}.idempotency_keys AS k ON k.digest = q.digest
WHERE k.token <> q.token
