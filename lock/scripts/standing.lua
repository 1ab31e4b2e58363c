-- Tells a node's standing, and puts it under guard when it has lost its
-- memory: it then does not vote until every lock that it may have forgotten
-- has lapsed.
-- KEYS[1] marker: 'ok <run id> <MaxTTL ms> <nonce>', or
--         'wait <run id> <MaxTTL ms> <since, ms>'
-- KEYS[2] counter of the node
-- ARGV[1] run id of this server, ARGV[2] MaxTTL in milliseconds
-- Returns {standing, detail, counter}:
--   'ok', the marker: it votes
--   'max', MaxTTL that the deployment was begun with, another than ARGV[2]
--   'wait', milliseconds until it may vote again; 0: as soon as it has caught
--           up with the others (rejoin.lua)
local marker = redis.call('GET', KEYS[1]) or ''
local counter = redis.call('GET', KEYS[2]) or '0'
local state, run, max, rest = string.match(marker, '^(%a+) (%S+) (%d+) (%S+)$')
if state and max ~= ARGV[2] then
  return {'max', max, counter}
end
if state == 'ok' and run == ARGV[1] then
  return {'ok', marker, counter}
end
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local since = tonumber(rest)
if state ~= 'wait' or run ~= ARGV[1] or not since or since > now then
  since = now
  redis.call('SET', KEYS[1], string.format('wait %s %s %.0f', ARGV[1], ARGV[2], now))
end
return {'wait', string.format('%.0f', math.max(0, since + ARGV[2] - now)), counter}
