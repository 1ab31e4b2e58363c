-- Reads a key.
-- $1 text key
-- returns response, null while somebody works on it
SELECT response FROM naive_keys WHERE key = $1
