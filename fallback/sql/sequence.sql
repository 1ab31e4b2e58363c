-- How the fence sequence is defined.
-- $1 text schema name
-- returns at most one row: increment, cache, cycle, persistence
SELECT s.seqincrement, s.seqcache, s.seqcycle, c.relpersistence::text
FROM pg_catalog.pg_class AS c
JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
JOIN pg_catalog.pg_sequence AS s ON s.seqrelid = c.oid
WHERE n.nspname = $1 AND c.relname = 'idempotency_fence'
