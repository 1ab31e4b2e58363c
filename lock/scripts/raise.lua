-- Writes a fence back to one node: its counter becomes at least the fence.
-- KEYS[1] marker, KEYS[2] counter (see standing.lua)
-- ARGV[1] the marker as it was last read over this connection
-- ARGV[2] the fence
-- Returns the counter, as a string; with another marker {}: nothing done.
local function less(a, b) -- decimal strings without leading zeros
  if #a ~= #b then
    return #a < #b
  end
  return a < b
end
if redis.call('GET', KEYS[1]) ~= ARGV[1] then
  return {}
end
local counter = redis.call('GET', KEYS[2]) or '0'
if less(counter, ARGV[2]) then
  redis.call('SET', KEYS[2], ARGV[2])
  return ARGV[2]
end
return counter
