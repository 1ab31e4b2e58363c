-- Claims an id. $1 id. Inserts one row if nobody has claimed it.
INSERT INTO bench_once (id) VALUES ($1) ON CONFLICT (id) DO NOTHING
