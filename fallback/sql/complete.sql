-- Records the responses of a batch: processing or unknown to completed. A
-- lapsed lease does not matter: what revokes a claim is a new fence. Rows that
-- another session has locked are skipped, and tried again singly.
-- $1 bytea[] digest, sorted; $2 bytea[] token; $3 int8[] fence
-- $4 int4[] status; $5 bytea[] response; $6 text[] reason
-- returns {record} per row completed
WITH mine AS MATERIALIZED (
    SELECT k.digest, q.status, q.response, q.reason
    FROM unnest($1::bytea[], $2::bytea[], $3::int8[], $4::int4[], $5::bytea[], $6::text[])
         AS q(digest, token, fence, status, response, reason)
    JOIN {schema}.idempotency_keys AS k ON k.digest = q.digest
    WHERE k.token = q.token AND k.fence = q.fence
      AND k.state IN ('processing', 'unknown')
    ORDER BY k.digest
    FOR UPDATE OF k {wait}
)
UPDATE {schema}.idempotency_keys AS k SET
    state = 'completed', completed_at = clock_timestamp(), expires_at = {expiry},
    status = mine.status, response = mine.response, reason = mine.reason
FROM mine
WHERE k.digest = mine.digest
RETURNING {record}
