-- Begins a deployment on one node: it votes at once, because there is no lock
-- that it could have forgotten.
-- KEYS[1] marker (see standing.lua)
-- ARGV[1] the marker to write: 'ok <run id> <MaxTTL ms> <nonce>'
-- Returns 1, or 0 when the node has a marker already.
if redis.call('SET', KEYS[1], ARGV[1], 'NX') then
  return 1
end
return 0
