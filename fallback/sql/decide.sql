-- The operator's or the hook's: unknown to completed or released, under a new
-- fence, audited in the same statement.
-- $1 bytea digest; $2 int8 fence; $3 text state; $4 int4 status
-- $5 bytea response; $6 bool force; $7 text who; $8 text why
-- returns {record} when changed
WITH changed AS (
    UPDATE {schema}.idempotency_keys AS k SET
        state = $3, fence = nextval('{schema}.idempotency_fence'), reason = $8,
        attempts = CASE $3 WHEN 'released' THEN 0 ELSE k.attempts END,
        released_at = CASE $3 WHEN 'released' THEN clock_timestamp() END,
        completed_at = CASE $3 WHEN 'completed' THEN clock_timestamp() END,
        expires_at = CASE $3 WHEN 'completed' THEN {expiry} END,
        status = CASE $3 WHEN 'completed' THEN $4::int4 ELSE 0 END,
        response = CASE $3 WHEN 'completed' THEN $5::bytea END
    WHERE k.digest = $1 AND k.fence = $2 AND k.state = 'unknown' AND k.version <= {version}
      AND ($3 = 'completed' OR $6::bool OR clock_timestamp() >= {over})
    RETURNING {columns}
), audited AS (
    INSERT INTO {schema}.idempotency_audit (at, digest, fence, action, who, why)
    SELECT clock_timestamp(), digest, $2, 'decide ' || $3::text, $7::text, $8 FROM changed
)
SELECT {record} FROM changed AS k
