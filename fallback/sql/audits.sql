-- The decisions about one key, oldest first.
-- $1 bytea digest
-- returns at, fence, action, who, why
SELECT a.at, a.fence, a.action, a.who, a.why
FROM {schema}.idempotency_audit AS a
WHERE a.digest = $1
ORDER BY a.seq
