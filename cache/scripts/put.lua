-- Puts a record (or the marker of a forgotten key) unless the node holds one
-- of a larger fence. O(1).
--
-- KEYS[1]  the record's key
-- ARGV[1]  the record; bytes 4 to 11 are its fence, big endian
-- ARGV[2]  time to live in milliseconds; 0: for ever
-- returns  1 stored, 0 superseded
--
-- Fences are compared in two halves: a Lua number is exact to 2^53 only, and
-- comparing strings would follow the server's locale.
local function fence(record)
  local a, b, c, d, e, f, g, h = string.byte(record, 4, 11)
  return ((a * 256 + b) * 256 + c) * 256 + d, ((e * 256 + f) * 256 + g) * 256 + h
end

local old = redis.call('GETRANGE', KEYS[1], 0, 10)
if #old == 11 then
  local old_high, old_low = fence(old)
  local high, low = fence(ARGV[1])
  if old_high > high or (old_high == high and old_low > low) then
    return 0
  end
end
if ARGV[2] == '0' then
  redis.call('SET', KEYS[1], ARGV[1])
else
  redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
end
return 1
