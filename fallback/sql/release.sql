-- Gives the claims of a batch back: processing or unknown to released. Rows
-- that another session has locked are skipped, and tried again singly.
-- $1 bytea[] digest, sorted; $2 bytea[] token; $3 int8[] fence; $4 text[] reason
-- $5 bool[] started: the next claim is the first attempt again; otherwise this
-- one does not count
-- returns {record} per row released
WITH mine AS MATERIALIZED (
    SELECT k.digest, q.reason, q.started
    FROM unnest($1::bytea[], $2::bytea[], $3::int8[], $4::text[], $5::bool[])
         AS q(digest, token, fence, reason, started)
    JOIN {schema}.idempotency_keys AS k ON k.digest = q.digest
    WHERE k.token = q.token AND k.fence = q.fence
      AND k.state IN ('processing', 'unknown')
    ORDER BY k.digest
    FOR UPDATE OF k {wait}
)
UPDATE {schema}.idempotency_keys AS k SET
    state = 'released', released_at = clock_timestamp(), reason = mine.reason,
    attempts = CASE WHEN mine.started THEN 0 ELSE k.attempts - 1 END
FROM mine
WHERE k.digest = mine.digest
RETURNING {record}
