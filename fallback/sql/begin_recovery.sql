-- Gives one caller the right to ask the recovery hook about an unknown row,
-- for a term (R17).
-- $1 bytea digest; $2 int8 fence; $3 int8 term in microseconds
-- returns {record} when given
UPDATE {schema}.idempotency_keys AS k SET
    recover_until = clock_timestamp() + $3::int8 * interval '1 microsecond'
WHERE k.digest = $1 AND k.fence = $2 AND k.state = 'unknown' AND k.version <= {version}
  AND clock_timestamp() >= {over}
  AND (k.recover_until IS NULL OR k.recover_until <= clock_timestamp())
RETURNING {record}
