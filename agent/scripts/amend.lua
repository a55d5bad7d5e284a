-- KEYS epoch | ARGV the epoch as the caller knows it, what it is to be
-- Changes the epoch of a process that is blessed: nobody who knows the former one is voted for any more.
-- Answers {1, TIME, epoch}, whichever that is then; {0, TIME, 0, 0} if it names another process.
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local epoch = redis.pcall('GET', KEYS[1])
if epoch == ARGV[1] then
  epoch = ARGV[2]
  redis.call('SET', KEYS[1], epoch)
end
if type(epoch) == 'string' and string.match(epoch, '^%w+') == string.match(ARGV[1], '^%w+') then
  return {1, now, epoch}
end
return {0, now, 0, 0}
