-- Lines a fair waiter up on one node, and tells its place.
-- KEYS[1] waiters of the lock by arrival, KEYS[2] the same by last visit
-- ARGV[1] waiter
-- ARGV[2] milliseconds after which one that does not come again is forgotten
-- Returns how many waiters stand before it.
local time = redis.call('TIME')
local now = string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000))
local gone = redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', now - ARGV[2], 'LIMIT', 0, 16)
for _, waiter in ipairs(gone) do
  redis.call('ZREM', KEYS[1], waiter)
  redis.call('ZREM', KEYS[2], waiter)
end
redis.call('ZADD', KEYS[1], 'NX', now, ARGV[1])
redis.call('ZADD', KEYS[2], now, ARGV[1])
redis.call('PEXPIRE', KEYS[1], 2 * ARGV[2])
redis.call('PEXPIRE', KEYS[2], 2 * ARGV[2])
return redis.call('ZRANK', KEYS[1], ARGV[1])
