-- KEYS locks, then epoch | ARGV a value a key, then a ttl in ms a key, then epoch
-- Answers TIME in us, then per key: 1 extended, 2 was missing and is set again (not counted in this round),
-- 0 is another's, or the text of the error when the node takes no writes. An error when the node is no
-- longer the one that the agent trusts.
local n = #KEYS - 1
if redis.pcall('GET', KEYS[n + 1]) ~= ARGV[2 * n + 1] then return redis.error_reply('EPOCH changed') end
local time = redis.call('TIME')
local out = {time[1] * 1000000 + time[2]}
for i = 1, n do
  local held = redis.pcall('GET', KEYS[i])
  if held == ARGV[i] then
    local done = redis.pcall('PEXPIRE', KEYS[i], ARGV[n + i])
    out[1 + i] = type(done) == 'table' and done.err or done
  elseif held == false then
    local done = redis.pcall('SET', KEYS[i], ARGV[i], 'PX', ARGV[n + i])
    out[1 + i] = done.err or 2
  else
    out[1 + i] = 0
  end
end
return out
