-- Counts the locks that one pipeline asked for, if the node is in good standing.
-- It follows them, so that a node which lost its memory meanwhile has lost the
-- marker as well.
-- KEYS[1] marker of the node's standing
-- KEYS[2] counter of the node
-- ARGV[1] the marker as it was last read over this connection
-- ARGV[2], ARGV[3] the lowest and the highest fence that are proposed for them
-- Returns what has become of the lowest: as proposed, or more where the node has
-- counted beyond; the others keep their distances to it. Where a double could not
-- hold them, and with another marker, {}: nothing is counted.
local call = redis.call
if call('GET', KEYS[1]) ~= ARGV[1] then
  return {}
end
local first = math.max(tonumber(call('GET', KEYS[2]) or 0) + 1, tonumber(ARGV[2]))
local last = first + ARGV[3] - ARGV[2]
if last >= 9007199254740992 then
  return {}
end
call('SET', KEYS[2], last)
return first
