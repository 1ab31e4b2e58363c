-- Takes a lock that is free or lapsed.
-- $1 name, $2 token, $3 how long. Returns one row if it was taken, else none.
INSERT INTO bench_lease AS held (name, token, held_until)
VALUES ($1, $2, clock_timestamp() + $3::interval)
ON CONFLICT (name) DO UPDATE
    SET token = excluded.token, held_until = excluded.held_until
    WHERE held.held_until <= clock_timestamp()
RETURNING token
