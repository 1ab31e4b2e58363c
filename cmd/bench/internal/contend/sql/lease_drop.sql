-- Gives a lock back. $1 name, $2 token. Deletes one row if it was held.
DELETE FROM bench_lease WHERE name = $1 AND token = $2
