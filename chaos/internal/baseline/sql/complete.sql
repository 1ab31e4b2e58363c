-- Records the response of a key.
-- $1 text key; $2 bytea response
UPDATE naive_keys SET response = $2 WHERE key = $1
