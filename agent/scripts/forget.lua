-- KEYS epoch, marks | ARGV epoch, or '' if unknown
-- This process lost keys, and its epoch key may have survived: deletes that epoch, unless there is a newer
-- one, and all marks, which prove nothing any more. Returns 1 if there was such an epoch, else 0.
local gone = 0
if ARGV[1] == '' or redis.pcall('GET', KEYS[1]) == ARGV[1] then gone = redis.call('DEL', KEYS[1]) end
redis.call('DEL', KEYS[2])
return gone
