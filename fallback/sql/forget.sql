-- The operator's: completed or tombstone to a tombstone without a body, under
-- a new fence; expires_at is kept. Audited in the same statement.
-- $1 bytea digest; $2 text who; $3 text why
-- returns {record} when changed
WITH before AS MATERIALIZED (
    SELECT k.digest, k.fence
    FROM {schema}.idempotency_keys AS k
    WHERE k.digest = $1 AND k.version <= {version}
      AND (k.state = 'completed' OR k.state = 'tombstone' AND k.reason <> '{forgotten}')
    FOR UPDATE
), changed AS (
    UPDATE {schema}.idempotency_keys AS k SET
        state = 'tombstone', fence = nextval('{schema}.idempotency_fence'),
        reason = '{forgotten}', status = 0, size = 0, response = NULL
    FROM before
    WHERE k.digest = before.digest
    RETURNING {columns}
), audited AS (
    INSERT INTO {schema}.idempotency_audit (at, digest, fence, action, who, why)
    SELECT clock_timestamp(), digest, fence, 'forget', $2::text, $3::text FROM before
)
SELECT {record} FROM changed AS k
