-- Asks one node to tell a process of the next release of a lock.
-- KEYS[1] the lock
-- KEYS[2] the channels that are to be told of its release
-- ARGV[1] the process's channel
-- ARGV[2] milliseconds after which the node may forget that it was asked
-- Returns 1 when the node has such a lock, else 0.
redis.call('SADD', KEYS[2], ARGV[1])
redis.call('PEXPIRE', KEYS[2], ARGV[2])
return redis.call('EXISTS', KEYS[1])
