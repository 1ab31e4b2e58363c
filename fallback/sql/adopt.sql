-- Makes the server that this connection is connected to the ledger's own. The
-- first adoption records it; a later one also moves the fence sequence far
-- beyond anything that a lost transaction can have drawn, and keeps take-overs
-- still until every lease granted before has ended. The caller holds the
-- advisory lock of sql/adopt_lock.sql in this transaction.
-- $1 text system_identifier; $2 text timeline: what the meta row must still say
-- $3 bool first: nothing is recorded yet
-- returns one row, the fence that the sequence stands at, when it adopted
UPDATE {schema}.idempotency_meta AS m SET
    system_identifier = (SELECT system_identifier::text FROM pg_control_system()),
    timeline = left(pg_walfile_name(pg_current_wal_lsn()), 8),
    adopted_at = clock_timestamp(),
    takeover_after = CASE WHEN $3::bool THEN m.takeover_after
        ELSE clock_timestamp() + m.max_lease_us * interval '1 microsecond' END
WHERE m.only_row AND m.system_identifier = $1 AND m.timeline = $2
RETURNING CASE WHEN $3::bool THEN 0
    ELSE setval('{schema}.idempotency_fence',
                nextval('{schema}.idempotency_fence') + 4294967296) END
