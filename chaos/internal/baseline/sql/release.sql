-- Gives a key back whose handler has failed.
-- $1 text key
DELETE FROM naive_keys WHERE key = $1 AND response IS NULL
