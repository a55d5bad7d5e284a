-- KEYS epoch, marks | ARGV the caller's field in marks, its mark's number, the marks' ttl in ms, whether to
-- leave the mark, a floor or 0, the run_id of the process before this one if all of its data must be here,
-- or '', whether its blessing is to be nobody's
-- Does the epoch name this very process? Answers {1, TIME in us, epoch}; otherwise {0, TIME, whether the
-- mark stands}: as long as it does, nothing has been lost since it was left (it names the process too: one
-- that comes back with old data proves nothing), and nobody has blessed it. An epoch with the given floor is
-- withdrawn first. If the epoch names the process before this one, the answer is {0, TIME, 2}.
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local epoch = redis.pcall('GET', KEYS[1])
local process, floor = string.match(type(epoch) == 'string' and epoch or '', '^(%w+) %d+ (%d+)$')
local run_id = string.match(redis.call('INFO', 'server'), 'run_id:(%w+)')
if process == run_id then
  if floor ~= ARGV[5] then return {1, now, epoch} end
  redis.call('DEL', KEYS[1])
elseif process and ARGV[7] == '1' then
  redis.call('DEL', KEYS[1])
elseif process == ARGV[6] then
  return {0, now, 2}
end
local mark = ARGV[2] .. ' ' .. run_id
if ARGV[4] == '1' then
  redis.call('HSET', KEYS[2], ARGV[1], mark)
elseif redis.pcall('HGET', KEYS[2], ARGV[1]) ~= mark then
  return {0, now, 0}
end
redis.call('PEXPIRE', KEYS[2], ARGV[3])
return {0, now, 1}
