-- Takes a lock on one node, without guard and fence.
-- KEYS[1] the lock
-- ARGV[1] value: 32 characters of token, then what people may want to know
-- ARGV[2] TTL in milliseconds
-- Returns '0' (no fence) when the lock is the token's now, also when it was
-- already: then its TTL starts anew. Else {value of the holder, its remaining
-- TTL in milliseconds}.
if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then
  return '0'
end
local holder = redis.call('GET', KEYS[1])
if string.sub(holder, 1, 32) == string.sub(ARGV[1], 1, 32) then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
  return '0'
end
return {holder, redis.call('PTTL', KEYS[1])}
