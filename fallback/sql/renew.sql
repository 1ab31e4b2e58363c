-- Moves the leases of a batch. Under Retry a lapsed lease is left to
-- take-over, unless the background completer asks (late). Rows that another
-- session has locked are skipped, and tried again singly.
-- $1 bytea[] digest, sorted; $2 bytea[] token; $3 int8[] fence; $4 bool[] late
-- returns {grant} per lease moved
WITH mine AS MATERIALIZED (
    SELECT k.digest, q.late OR k.state = 'streaming' AS uncapped
    FROM unnest($1::bytea[], $2::bytea[], $3::int8[], $4::bool[]) AS q(digest, token, fence, late)
    JOIN {schema}.idempotency_keys AS k ON k.digest = q.digest
    WHERE k.token = q.token AND k.fence = q.fence
      AND (k.state = 'streaming'
           OR k.state = 'processing'
              AND (q.late OR k.takeover = 'hold' OR k.lease_until > clock_timestamp()))
    ORDER BY k.digest
    FOR UPDATE OF k {wait}
)
UPDATE {schema}.idempotency_keys AS k SET
    lease_until = greatest(
        k.lease_until,
        least(clock_timestamp() + k.lease_us * interval '1 microsecond',
              CASE WHEN mine.uncapped THEN 'infinity'
                   ELSE k.claimed_at + k.max_processing_us * interval '1 microsecond'
              END))
FROM mine
WHERE k.digest = mine.digest
RETURNING {grant}
