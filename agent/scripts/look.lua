-- KEYS lock[, fence]
-- Answers {type, value, ttl left in ms, the holder's token or 0}; the type is "none" when the key is free.
-- The fence key has the largest token accepted, and behind it the holder's if that is another.
local kind = redis.call('TYPE', KEYS[1]).ok
local value = ''
if kind == 'string' then value = redis.call('GET', KEYS[1]) end
local fence = KEYS[2] and redis.pcall('GET', KEYS[2])
fence = type(fence) == 'string' and tonumber(string.match(fence, '%d+$')) or 0
return {kind, value, redis.call('PTTL', KEYS[1]), fence}
