-- KEYS epoch, mark | ARGV nonce, max_ttl in ms, fence_skew in us, the run_id of the process before this one
-- if all of its data are here, or ''
-- Writes the epoch: everything that this node may have forgotten has ended. Only while the mark stands. Its
-- floor is the highest fencing token that this node can have accepted by now. An epoch that names this
-- process already, or the one before, is kept, with the larger max_ttl. Answers like probe.
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local epoch = redis.pcall('GET', KEYS[1])
local run_id = string.match(redis.call('INFO', 'server'), 'run_id:(%w+)')
local function names(process)
  return process ~= '' and type(epoch) == 'string' and string.sub(epoch, 1, #process + 1) == process .. ' '
end
local max_ttl = ARGV[2]
local floor = string.format('%.0f', now + ARGV[3])
if names(run_id) or names(ARGV[4]) then
  local other = string.match(epoch, '^%w+ (%d+)') or '0'
  if tonumber(other) >= tonumber(max_ttl) then
    if names(run_id) then return {1, now, epoch} end
    max_ttl = other
  end
  floor = string.match(epoch, '%d+$')
elseif redis.pcall('GET', KEYS[2]) ~= ARGV[1] .. ' ' .. run_id then
  return {0, now, 0}
end
local fresh = run_id .. ' ' .. max_ttl .. ' ' .. floor
redis.call('SET', KEYS[1], fresh)
redis.call('DEL', KEYS[2])
return {1, now, fresh}
