-- KEYS lock[, fences, former fences]
-- Returns {type, value, ttl left in ms, the holder's token or 0}; the type is "none" without a key. A long
-- value is cut, as in acquire: any client may ask for any key, and an answer has a limit.
-- Fences has the largest token accepted, followed by the holder's own if they differ, see acquire.
local kind = redis.call('TYPE', KEYS[1]).ok
local value = ''
if kind == 'string' then value = string.sub(redis.call('GET', KEYS[1]), 1, 2048) end
local fence = KEYS[2] and redis.pcall('HGET', KEYS[2], KEYS[1])
if KEYS[2] and type(fence) ~= 'string' then fence = redis.pcall('HGET', KEYS[3], KEYS[1]) end
fence = type(fence) == 'string' and tonumber(string.match(fence, '%d+$')) or 0
return {kind, value, redis.call('PTTL', KEYS[1]), fence}
