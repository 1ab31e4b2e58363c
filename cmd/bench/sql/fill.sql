-- Fills a ledger with :rows completed rows of :size bytes each, as if other
-- processes had written them. The text of the two parameters is replaced.
INSERT INTO public.idempotency_keys (
    digest, namespace, scope, id, state, fence, token, owner, fp_version, fp_secret, fp_sum,
    takeover, lease_us, max_processing_us, max_attempts, retention_us, after_expiry, attempts,
    claimed_at, lease_until, completed_at, expires_at, status, size, response, version)
SELECT sha256(n::text::bytea), 'do', 'bench'::bytea, ('fill-' || n)::bytea, 'completed',
    nextval('public.idempotency_fence'), substring(sha256(('t' || n)::bytea) FOR 16), 'fill', 0, 0, '',
    'hold', 10000000, 300000000, 5, 86400000000, 'run_again', 1,
    clock_timestamp(), clock_timestamp(), clock_timestamp(), clock_timestamp() + interval '1 day',
    200, :size, decode(repeat('ab', :size), 'hex'), 1
FROM generate_series(1, :rows) AS n
