-- Shows a lock on one node. Changes nothing.
-- KEYS[1] the lock
-- Returns {value, remaining TTL in milliseconds}, or {} when there is none.
local held = redis.call('GET', KEYS[1])
if not held then
  return {}
end
return {held, redis.call('PTTL', KEYS[1])}
