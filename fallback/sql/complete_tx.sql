-- The last statement before COMMIT of a handler's own transaction (R15). It
-- must change one row, or the transaction is rolled back: also when the row is
-- completed already under this token.
-- $1 bytea digest; $2 bytea token; $3 int8 fence; $4 int4 status
-- $5 bytea response; $6 text reason
UPDATE {schema}.idempotency_keys AS k SET
    state = 'completed', completed_at = clock_timestamp(), expires_at = {expiry},
    status = $4, response = $5, reason = $6
WHERE k.digest = $1 AND k.token = $2 AND k.fence = $3
  AND k.state IN ('processing', 'unknown')
