-- KEYS epoch, mark | ARGV nonce, max_ttl in ms
-- Writes the epoch: everything that this node may have forgotten has ended. Only while the mark stands. An
-- epoch that names this process already is kept, with the larger max_ttl. Answers like probe.
local epoch = redis.pcall('GET', KEYS[1])
local run_id = string.match(redis.call('INFO', 'server'), 'run_id:(%w+)')
local fresh = run_id .. ' ' .. ARGV[2] .. ' 0'
if type(epoch) == 'string' and string.sub(epoch, 1, #run_id + 1) == run_id .. ' ' then
  local max_ttl = tonumber(string.match(epoch, '^%w+ (%d+)')) or 0
  if max_ttl >= tonumber(ARGV[2]) then return {1, epoch} end
elseif redis.pcall('GET', KEYS[2]) ~= ARGV[1] then
  return {0, 0}
end
redis.call('SET', KEYS[1], fresh)
redis.call('DEL', KEYS[2])
return {1, fresh}
