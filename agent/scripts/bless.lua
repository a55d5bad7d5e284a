-- KEYS epoch, marks | ARGV the caller's field in marks, its mark's number, max_ttl in ms, fence_skew in us,
-- the run_id of the process before this one if all of its data are here, or '', the floor of a blessing to
-- raise
-- Writes the epoch: everything that this node may have forgotten has ended. Only while the mark stands. Its
-- floor is the highest fencing token that this node can have accepted by now. All marks go: those who left
-- them have not waited for what is granted from now on. An epoch that names this process already is kept,
-- but for a larger max_ttl if its floor is the given one; that of the process before it is taken over.
-- Answers like probe.
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local epoch = redis.pcall('GET', KEYS[1])
local process, max_ttl, floor = string.match(type(epoch) == 'string' and epoch or '', '^(%w+) (%d+) (%d+)$')
local run_id = string.match(redis.call('INFO', 'server'), 'run_id:(%w+)')
if process == run_id then
  if tonumber(max_ttl) >= tonumber(ARGV[3]) or floor ~= ARGV[6] then return {1, now, epoch} end
  max_ttl = ARGV[3]
elseif not process or process ~= ARGV[5] then
  if redis.pcall('HGET', KEYS[2], ARGV[1]) ~= ARGV[2] .. ' ' .. run_id then return {0, now, 0} end
  max_ttl, floor = ARGV[3], string.format('%.0f', now + ARGV[4])
end
local fresh = run_id .. ' ' .. max_ttl .. ' ' .. floor
redis.call('SET', KEYS[1], fresh)
redis.call('DEL', KEYS[2])
return {1, now, fresh}
