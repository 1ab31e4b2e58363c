-- Gives a lock back on one node, and tells those who have asked (ask.lua).
-- KEYS[1] the lock
-- KEYS[2] the channels that are to be told; none: tell nobody
-- ARGV[1] token
-- Returns 1 released, 0 no such lock, -1 another token's: left alone.
local held = redis.call('GET', KEYS[1])
if not held then
  return 0
end
if string.sub(held, 1, 32) ~= ARGV[1] then
  return -1
end
redis.call('DEL', KEYS[1])
if KEYS[2] then -- pcall: what cannot be told has been released all the same
  local asked = redis.pcall('SMEMBERS', KEYS[2])
  if #asked > 0 then
    redis.call('DEL', KEYS[2])
    for _, channel in ipairs(asked) do
      redis.pcall('PUBLISH', channel, ARGV[1] .. KEYS[1])
    end
  end
end
return 1
