-- Takes a fair waiter out of the line on one node.
-- KEYS[1] waiters of the lock by arrival, KEYS[2] the same by last visit
-- ARGV[1] waiter
-- Returns 1, or 0 when it was not in line.
redis.call('ZREM', KEYS[2], ARGV[1])
return redis.call('ZREM', KEYS[1], ARGV[1])
