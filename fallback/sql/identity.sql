-- What this connection is connected to (R14), and what the meta row says.
-- returns one row: system identifier, timeline (empty in recovery), in
-- recovery, and of the meta row: version, min_binary, system_identifier,
-- timeline, max_lease_us; clock
SELECT (SELECT system_identifier::text FROM pg_control_system()),
       CASE WHEN pg_is_in_recovery() THEN ''
            ELSE left(pg_walfile_name(pg_current_wal_lsn()), 8)
       END,
       pg_is_in_recovery(),
       m.version, m.min_binary, m.system_identifier, m.timeline, m.max_lease_us,
       clock_timestamp()
FROM {schema}.idempotency_meta AS m WHERE m.only_row
