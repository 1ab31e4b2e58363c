-- The finder's: a lapsed claim that nobody may take over becomes unknown, a
-- lapsed stream becomes a tombstone. The row's own policy decides.
-- $1 bytea digest; $2 int8 fence
-- returns {record} when changed
UPDATE {schema}.idempotency_keys AS k SET
    state = CASE k.state WHEN 'streaming' THEN 'tombstone' ELSE 'unknown' END,
    reason = CASE k.state WHEN 'streaming' THEN '{cutshort}' ELSE '{lapsed}' END,
    completed_at = CASE k.state WHEN 'streaming' THEN clock_timestamp() END,
    expires_at = CASE k.state WHEN 'streaming' THEN {expiry} END
WHERE k.digest = $1 AND k.fence = $2 AND k.version <= {version}
  AND k.lease_until <= clock_timestamp()
  AND (k.state = 'streaming'
       OR k.state = 'processing' AND (k.takeover = 'hold' OR k.attempts >= k.max_attempts))
  AND {here} -- through a pooler, that this server is the ledger's (R14)
  AND clock_timestamp() >= (SELECT takeover_after FROM {schema}.idempotency_meta WHERE only_row)
RETURNING {record}
