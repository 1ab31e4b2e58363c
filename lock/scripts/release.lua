-- Gives a lock back on one node, and tells waiters.
-- KEYS[1] the lock
-- ARGV[1] token
-- ARGV[2] channel of the lock's waiters; empty: tell nobody
-- Returns 1 released, 0 no such lock, -1 another token's: left alone.
local held = redis.call('GET', KEYS[1])
if not held then
  return 0
end
if string.sub(held, 1, 32) ~= ARGV[1] then
  return -1
end
redis.call('DEL', KEYS[1])
if ARGV[2] ~= '' then
  redis.call('PUBLISH', ARGV[2], ARGV[1])
end
return 1
