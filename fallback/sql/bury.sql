-- The owner's: processing, unknown or streaming to tombstone.
-- $1 bytea digest; $2 bytea token; $3 int8 fence; $4 int4 status; $5 int8 size
-- $6 text reason
-- returns {record} when changed
UPDATE {schema}.idempotency_keys AS k SET
    state = 'tombstone', completed_at = clock_timestamp(), expires_at = {expiry},
    status = $4, size = $5, response = NULL, reason = $6
WHERE k.digest = $1 AND k.token = $2 AND k.fence = $3
  AND k.state IN ('processing', 'unknown', 'streaming')
RETURNING {record}
