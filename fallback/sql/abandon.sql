-- The owner's: processing to unknown, after the handler has returned.
-- $1 bytea digest; $2 bytea token; $3 int8 fence; $4 text reason
-- returns {record} when changed
UPDATE {schema}.idempotency_keys AS k SET state = 'unknown', reason = $4
WHERE k.digest = $1 AND k.token = $2 AND k.fence = $3 AND k.state = 'processing'
RETURNING {record}
