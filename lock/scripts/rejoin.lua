-- Ends the guard of a node whose time is up, after it has caught up.
-- KEYS[1] marker, KEYS[2] counter (see standing.lua)
-- ARGV[1] run id of this server, ARGV[2] MaxTTL in milliseconds
-- ARGV[3] the marker to write: 'ok <run id> <MaxTTL ms> <nonce>'
-- ARGV[4] the largest counter of the nodes that it catches up with
-- Returns 1 when it votes again, or does already; else 0.
local function less(a, b) -- decimal strings without leading zeros
  if #a ~= #b then
    return #a < #b
  end
  return a < b
end
local marker = redis.call('GET', KEYS[1]) or ''
local state, run, max, since = string.match(marker, '^(%a+) (%S+) (%d+) (%S+)$')
if run ~= ARGV[1] or max ~= ARGV[2] then
  return 0
end
if state == 'ok' then
  return 1
end
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
if state ~= 'wait' or now - tonumber(since) < tonumber(max) then
  return 0
end
if less(redis.call('GET', KEYS[2]) or '0', ARGV[4]) then
  redis.call('SET', KEYS[2], ARGV[4])
end
redis.call('SET', KEYS[1], ARGV[3])
return 1
