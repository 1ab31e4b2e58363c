-- Counts the locks that one pipeline asked for, if the node is in good standing.
-- It follows them, so that a node which lost its memory meanwhile has lost the
-- marker as well.
-- KEYS[1] marker of the node's standing
-- KEYS[2] counter of the node
-- ARGV[1] the marker as it was last read over this connection
-- ARGV[2] how many locks
-- ARGV[3] a counter that another node has reached: this one moves up to it
-- Returns the fence of the first; each of the others has one more than the one
-- before. Where a double could not hold them, and with another marker, {}:
-- nothing is counted.
local call = redis.call
if call('GET', KEYS[1]) ~= ARGV[1] then
  return {}
end
local first = math.max(tonumber(call('GET', KEYS[2]) or 0) + 1, tonumber(ARGV[3]))
local last = first + ARGV[2] - 1
if last >= 9007199254740992 then
  return {}
end
call('SET', KEYS[2], last)
return first
