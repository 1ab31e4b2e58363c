-- Waits until the transactions of claims in doubt are over, up to
-- lock_timeout, and then reads the clock. A claim that has not begun by then
-- goes by its not-after.
-- $1 int8[] names of sends
-- returns one row, the clock after the last wait
SELECT CASE WHEN waited.sends >= 0 THEN clock_timestamp() END
FROM (SELECT count(pg_advisory_xact_lock_shared(send)::text) AS sends
      FROM unnest($1::int8[]) AS send) AS waited
