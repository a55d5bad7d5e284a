-- KEYS epoch, mark | ARGV nonce, the mark's ttl in ms, whether to leave the mark, a floor or 0, the run_id
-- of the process before this one if all of its data must be here, or ''
-- Does the epoch name this very process? Answers {1, TIME in us, epoch}; otherwise {0, TIME, whether the
-- mark stands}: as long as it does, nothing has been lost since it was left (it names the process too: one
-- that comes back with old data proves nothing). An epoch with the given floor is withdrawn first. If the
-- epoch names the process before this one, the answer is {0, TIME, 2}.
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local epoch = redis.pcall('GET', KEYS[1])
local run_id = string.match(redis.call('INFO', 'server'), 'run_id:(%w+)')
if type(epoch) == 'string' and string.sub(epoch, 1, #run_id + 1) == run_id .. ' ' then
  if string.match(epoch, '%d+$') ~= ARGV[4] then return {1, now, epoch} end
  redis.call('DEL', KEYS[1])
end
if ARGV[5] ~= '' and type(epoch) == 'string' and string.sub(epoch, 1, #ARGV[5] + 1) == ARGV[5] .. ' ' then
  return {0, now, 2}
end
local mark = ARGV[1] .. ' ' .. run_id
if ARGV[3] == '1' then
  redis.call('SET', KEYS[2], mark, 'PX', ARGV[2])
elseif redis.pcall('GET', KEYS[2]) ~= mark then
  return {0, now, 0}
else
  redis.call('PEXPIRE', KEYS[2], ARGV[2])
end
return {0, now, 1}
