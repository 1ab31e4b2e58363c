-- Takes a lapsed claim over: Retry in the row, attempts left, the same
-- request, the fence that the finder saw. Draws a new fence.
-- $1 bytea digest; $2 int8 fence; $3 bytea token; $4 text owner
-- $5 int2 fp_version; $6 int2 fp_secret; $7 bytea fp_sum
-- $8 text takeover; $9 int8 lease_us; $10 int8 max_processing_us
-- $11 int4 max_attempts; $12 int8 retention_us; $13 text after_expiry
-- $14 timestamptz not-after
-- returns {grant} when granted
UPDATE {schema}.idempotency_keys AS k SET
    fence = nextval('{schema}.idempotency_fence'), token = $3, owner = $4,
    takeover = $8, lease_us = $9, max_processing_us = $10, max_attempts = $11,
    retention_us = $12, after_expiry = $13,
    attempts = k.attempts + 1, claimed_at = clock_timestamp(),
    lease_until = clock_timestamp() + $9::int8 * interval '1 microsecond',
    recover_until = NULL, version = {version}
WHERE k.digest = $1 AND k.fence = $2
  AND k.state = 'processing' AND k.version <= {version}
  AND k.takeover = 'retry' AND k.attempts < k.max_attempts
  AND k.fp_version = $5 AND k.fp_secret = $6 AND k.fp_sum = $7
  AND k.lease_until <= clock_timestamp()
  AND clock_timestamp() < $14::timestamptz
  AND {here} -- through a pooler, that this server is the ledger's (R14)
  AND clock_timestamp() >= (SELECT takeover_after FROM {schema}.idempotency_meta WHERE only_row)
RETURNING {grant}
