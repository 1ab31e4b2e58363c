-- Claims a batch of keys (R1). The rows it returns are the verdicts, once the
-- commit is confirmed. The insert branch draws its fence before the conflict
-- is seen; the conflict branch draws another, after it has the row's lock.
-- Claimable states are listed positively.
-- $1 bytea[] digest, sorted by the caller, none twice
-- $2 text[] namespace; $3 bytea[] scope; $4 bytea[] id; $5 bytea[] token
-- $6 text[] owner; $7 int2[] fp_version; $8 int2[] fp_secret; $9 bytea[] fp_sum
-- $10 text[] takeover; $11 int8[] lease_us; $12 int8[] max_processing_us
-- $13 int4[] max_attempts; $14 int8[] retention_us (null: for ever)
-- $15 text[] after_expiry
-- $16 timestamptz not-after: later than this it claims nothing
-- {here}: through a pooler, that this server is the ledger's (R14)
-- returns one row per claim granted: {grant}
INSERT INTO {schema}.idempotency_keys AS k
    (digest, namespace, scope, id, state, fence, token, owner,
     fp_version, fp_secret, fp_sum,
     takeover, lease_us, max_processing_us, max_attempts, retention_us, after_expiry,
     attempts, claimed_at, lease_until, version)
SELECT q.digest, q.namespace, q.scope, q.id, 'processing',
       nextval('{schema}.idempotency_fence'), q.token, q.owner,
       q.fp_version, q.fp_secret, q.fp_sum,
       q.takeover, q.lease_us, q.max_processing_us, q.max_attempts, q.retention_us, q.after_expiry,
       1, clock_timestamp(), clock_timestamp() + q.lease_us * interval '1 microsecond', {version}
FROM unnest($1::bytea[], $2::text[], $3::bytea[], $4::bytea[], $5::bytea[],
            $6::text[], $7::int2[], $8::int2[], $9::bytea[],
            $10::text[], $11::int8[], $12::int8[], $13::int4[], $14::int8[], $15::text[])
     AS q(digest, namespace, scope, id, token,
          owner, fp_version, fp_secret, fp_sum,
          takeover, lease_us, max_processing_us, max_attempts, retention_us, after_expiry)
WHERE clock_timestamp() < $16::timestamptz AND {here}
ON CONFLICT (digest) DO UPDATE SET
    state = 'processing', fence = nextval('{schema}.idempotency_fence'),
    token = excluded.token, owner = excluded.owner,
    fp_version = excluded.fp_version, fp_secret = excluded.fp_secret, fp_sum = excluded.fp_sum,
    takeover = excluded.takeover, lease_us = excluded.lease_us,
    max_processing_us = excluded.max_processing_us, max_attempts = excluded.max_attempts,
    retention_us = excluded.retention_us, after_expiry = excluded.after_expiry,
    attempts = CASE k.state WHEN 'released' THEN k.attempts ELSE 0 END + 1,
    claimed_at = clock_timestamp(),
    lease_until = clock_timestamp() + excluded.lease_us * interval '1 microsecond',
    recover_until = NULL, completed_at = NULL, released_at = NULL, expires_at = NULL,
    status = 0, size = 0, response = NULL, reason = '', version = excluded.version
WHERE k.version <= {version}
  AND clock_timestamp() < $16::timestamptz
  AND (k.state = 'released'
       OR k.state IN ('completed', 'tombstone')
          AND k.after_expiry = 'run again'
          AND k.expires_at <= clock_timestamp())
RETURNING {grant}
