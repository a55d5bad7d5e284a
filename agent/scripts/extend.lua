-- KEYS locks | ARGV a value a key, then a ttl in ms a key
-- Answers per key: 1 extended, 2 was missing and is set again (this round does not count it), 0 stands for another.
local n, out = #KEYS, {}
for i = 1, n do
  local held = redis.pcall('GET', KEYS[i])
  if held == ARGV[i] then
    out[i] = redis.call('PEXPIRE', KEYS[i], ARGV[n + i])
  elseif held == false then
    redis.call('SET', KEYS[i], ARGV[i], 'PX', ARGV[n + i])
    out[i] = 2
  else
    out[i] = 0
  end
end
return out
