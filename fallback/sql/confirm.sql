-- Reads rows by locking them: whoever is changing one is waited for, and the
-- lock is a write, so that this transaction's COMMIT is confirmed only after
-- everything that the rows show is as durable. sql/wait.sql runs before it.
-- $1 bytea[] digest, sorted
-- returns {record}, response
WITH seen AS MATERIALIZED (
    SELECT k.*
    FROM unnest($1::bytea[]) AS q(digest)
    JOIN {schema}.idempotency_keys AS k ON k.digest = q.digest
    ORDER BY k.digest
    FOR UPDATE OF k
)
SELECT {record}, k.response FROM seen AS k
