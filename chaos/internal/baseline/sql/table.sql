-- What stands in for the lock, and keeps the response, while Redis is down.
CREATE TABLE IF NOT EXISTS naive_keys (
    key      text PRIMARY KEY,
    response bytea -- null while somebody works on it
)
