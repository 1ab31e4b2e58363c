-- Removes rows that nobody needs any more, from a range of pages: released, or
-- terminal and free to run again, for longer than any claim statement can
-- live. Never by the age of a claim; never states or versions that this binary
-- does not know. Rows that are locked are left for the next round. One sweeper
-- at a time.
-- $1 int8 first page; $2 int8 pages; $3 int8 grace in microseconds
-- $4 int8 key of the advisory lock
-- returns one row: whether this session swept, rows removed, rows seen,
-- pages of the table
WITH may AS MATERIALIZED (
    SELECT pg_try_advisory_xact_lock($4) AS sweep
), seen AS MATERIALIZED (
    SELECT k.digest,
           k.version <= {version} AND CASE
               WHEN k.state = 'released' THEN k.released_at
               WHEN k.state IN ('completed', 'tombstone') AND k.after_expiry = 'run again' THEN k.expires_at
           END < clock_timestamp() - $3::int8 * interval '1 microsecond' AS dead
    FROM {schema}.idempotency_keys AS k
    WHERE (SELECT sweep FROM may)
      AND k.ctid >= format('(%s,0)', $1::int8)::tid
      AND k.ctid < format('(%s,0)', $1::int8 + $2::int8)::tid
), locked AS MATERIALIZED (
    SELECT k.digest
    FROM seen JOIN {schema}.idempotency_keys AS k ON k.digest = seen.digest
    WHERE seen.dead
      AND k.version <= {version} AND CASE
              WHEN k.state = 'released' THEN k.released_at
              WHEN k.state IN ('completed', 'tombstone') AND k.after_expiry = 'run again' THEN k.expires_at
          END < clock_timestamp() - $3::int8 * interval '1 microsecond'
    FOR UPDATE OF k SKIP LOCKED
), removed AS (
    DELETE FROM {schema}.idempotency_keys AS k USING locked
    WHERE k.digest = locked.digest
    RETURNING 1
)
SELECT (SELECT sweep FROM may),
       (SELECT count(*) FROM removed),
       (SELECT count(*) FROM seen),
       pg_relation_size('{schema}.idempotency_keys') / current_setting('block_size')::int8
