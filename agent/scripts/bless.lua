-- KEYS epoch, marks, older agents' marks | ARGV the caller's field in marks, its mark's number, max_ttl in
-- ms, fence_skew in us, the run_id of the former process if all of its data are here, or '', the longest
-- max_ttl for which the caller has waited, its fleet, 'rested' or 'unrested'
-- Writes the epoch: all leases that this node may have forgotten have ended. Requires that the mark is
-- present, and that no mark has a longer max_ttl than the caller waited for. The floor is the highest
-- fencing token that this node can have accepted by now. All marks are deleted: their agents have not waited
-- for leases granted from now on. An epoch that names this process stays, unless it is unrested and the
-- caller's is rested; an epoch that names the former process is continued. Returns {1, TIME, epoch}, or {0,
-- TIME, whether the mark is present, the longest max_ttl of marks}. Agents built before December 2026 would
-- overwrite epochs: their marks' key gets a value of another type, so that they can't leave marks.
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local epoch = redis.pcall('GET', KEYS[1])
local process, max_ttl, rest, rested, generation =
  string.match(type(epoch) == 'string' and epoch or '', '^(%w+) (%d+) (%d+ %x+) (%a+) (%d+)')
local run_id = string.match(redis.call('INFO', 'server'), 'run_id:(%w+)')
if process == run_id and (rested == 'rested' or ARGV[8] ~= 'rested') then return {1, now, epoch} end
if process and process == ARGV[5] and (rested == 'rested' or ARGV[8] ~= 'rested') then
  generation = tonumber(generation) + 1
else
  if redis.pcall('HGET', KEYS[2], ARGV[1]) ~= ARGV[2] .. ' ' .. run_id then return {0, now, 0, 0} end
  local known = tonumber(redis.call('HGET', KEYS[2], 'max_ttl') or 0)
  if known > tonumber(ARGV[6]) then return {0, now, 1, known} end
  max_ttl, rested, generation = math.max(tonumber(ARGV[3]), known), ARGV[8], 0
  rest = string.format('%.0f ', now + ARGV[4]) .. ARGV[7]
end
local fresh = string.format('%s %s %s %s %d', run_id, max_ttl, rest, rested, generation)
-- A full node refuses SET as a script's first write. PEXPIRE is permitted, and this key has no value.
redis.call('PEXPIRE', 'redlockd:rights', 1)
redis.call('SET', KEYS[1], fresh)
if rested == 'rested' then redis.call('DEL', KEYS[2]) end
redis.call('SET', KEYS[3], 'agents built before December 2026 do not bless this node')
return {1, now, fresh}
