-- KEYS epoch, mark | ARGV nonce, max_ttl in ms, fence_skew in us
-- Writes the epoch: everything that this node may have forgotten has ended. Only while the mark stands. Its
-- floor is the highest fencing token that this node can have accepted by now. An epoch that names this
-- process already is kept, with the larger max_ttl. Answers like probe.
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local epoch = redis.pcall('GET', KEYS[1])
local run_id = string.match(redis.call('INFO', 'server'), 'run_id:(%w+)')
local floor = string.format('%.0f', now + ARGV[3])
if type(epoch) == 'string' and string.sub(epoch, 1, #run_id + 1) == run_id .. ' ' then
  local max_ttl = tonumber(string.match(epoch, '^%w+ (%d+)')) or 0
  if max_ttl >= tonumber(ARGV[2]) then return {1, now, epoch} end
  floor = string.match(epoch, '%d+$')
elseif redis.pcall('GET', KEYS[2]) ~= ARGV[1] .. ' ' .. run_id then
  return {0, now, 0}
end
local fresh = run_id .. ' ' .. ARGV[2] .. ' ' .. floor
redis.call('SET', KEYS[1], fresh)
redis.call('DEL', KEYS[2])
return {1, now, fresh}
