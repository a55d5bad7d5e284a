-- KEYS epoch, mark | ARGV epoch, or nothing if it is not known
-- This process has lost keys, and its epoch key may have survived: takes that blessing back, unless there is
-- a newer one, and our mark, which proves nothing any more.
if ARGV[1] == '' or redis.pcall('GET', KEYS[1]) == ARGV[1] then redis.call('DEL', KEYS[1]) end
return redis.call('DEL', KEYS[2])
