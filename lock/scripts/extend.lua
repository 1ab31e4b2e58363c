-- Starts the TTL of a held lock anew on one node. Never makes a lock.
-- KEYS[1] the lock
-- ARGV[1] value: 32 characters of token, then what people may want to know
-- ARGV[2] TTL in milliseconds
-- Returns 1 extended, 0 no such lock, -1 another token's: left alone.
local held = redis.call('GET', KEYS[1])
if not held then
  return 0
end
if string.sub(held, 1, 32) ~= string.sub(ARGV[1], 1, 32) then
  return -1
end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1
