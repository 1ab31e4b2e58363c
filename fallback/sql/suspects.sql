-- Tells which rows of a batch another session has locked, after the batch ran
-- into lock_timeout.
-- $1 bytea[] digest
-- returns the digests that are locked
SELECT k.digest
FROM unnest($1::bytea[]) AS q(digest)
JOIN {schema}.idempotency_keys AS k ON k.digest = q.digest
EXCEPT
SELECT free.digest FROM (
    SELECT k.digest
    FROM unnest($1::bytea[]) AS q(digest)
    JOIN {schema}.idempotency_keys AS k ON k.digest = q.digest
    FOR UPDATE OF k SKIP LOCKED
) AS free
