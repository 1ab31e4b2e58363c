-- Waits until the transactions of claims in doubt are over, up to
-- lock_timeout, and then reads the clock. A claim that has not begun by then
-- goes by its not-after.
-- $1 int8[] names of sends
-- returns one row per send; the last clock is read after the last wait
SELECT pg_advisory_xact_lock_shared(send), clock_timestamp()
FROM unnest($1::int8[]) AS send
