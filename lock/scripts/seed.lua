-- Puts a lock back on a node that lost it. Only for a holder that a quorum has
-- confirmed inside its validity, in the same call.
-- KEYS[1] the lock
-- ARGV[1] value: 32 characters of token, then what people may want to know
-- ARGV[2] TTL in milliseconds
-- Returns 1 the lock is the token's now, -1 another token's: left alone.
if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then
  return 1
end
local held = redis.call('GET', KEYS[1])
if string.sub(held, 1, 32) ~= string.sub(ARGV[1], 1, 32) then
  return -1
end
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return 1
