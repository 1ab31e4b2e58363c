-- Claims a key.
-- $1 text key
-- changes one row, or none when it is claimed already
INSERT INTO naive_keys (key) VALUES ($1) ON CONFLICT DO NOTHING
