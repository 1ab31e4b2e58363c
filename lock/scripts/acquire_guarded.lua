-- Takes a lock on one node and draws a fence, if the node is in good standing.
-- KEYS[1] the lock
-- KEYS[2] marker of the node's standing
-- KEYS[3] counter of the node
-- ARGV[1] value: 32 characters of token, then what people may want to know
-- ARGV[2] TTL in milliseconds
-- ARGV[3] the marker as it was last read over this connection
-- ARGV[4] the fence that is proposed: a counter that is behind moves up to it, so
--         that the nodes stay close together
-- Returns the fence, as a string where a double cannot hold it, when the lock is
-- the token's now, also when it was already: then its TTL starts anew. Else
-- {value of the holder, its remaining TTL in milliseconds}. With another marker
-- {}: no vote; ask standing.lua.
local call = redis.call
if call('GET', KEYS[2]) ~= ARGV[3] then
  return {}
end
if not call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2], 'NX') then
  local holder = call('GET', KEYS[1])
  if string.sub(holder, 1, 32) ~= string.sub(ARGV[1], 1, 32) then
    return {holder, call('PTTL', KEYS[1])}
  end
  call('PEXPIRE', KEYS[1], ARGV[2])
end
local fence = call('INCR', KEYS[3])
-- Doubles: this may come out equal above 2^53, never greater when it is not.
if tonumber(ARGV[4]) > fence then
  call('SET', KEYS[3], ARGV[4])
  fence = tonumber(ARGV[4])
end
if fence < 9007199254740992 then
  return fence
end
return call('GET', KEYS[3])
