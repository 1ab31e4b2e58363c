-- The owner's, before the first byte of an unrecordable response leaves:
-- processing or unknown to streaming, the lease renewed.
-- $1 bytea digest; $2 bytea token; $3 int8 fence
-- returns {record} when changed, or when it was streaming already
UPDATE {schema}.idempotency_keys AS k SET
    state = 'streaming',
    lease_until = greatest(k.lease_until, clock_timestamp() + k.lease_us * interval '1 microsecond')
WHERE k.digest = $1 AND k.token = $2 AND k.fence = $3
  AND k.state IN ('processing', 'unknown', 'streaming')
RETURNING {record}
