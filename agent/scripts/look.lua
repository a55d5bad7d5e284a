-- KEYS lock[, fence]
-- Answers {type, value, ttl left in ms, largest token accepted or 0}; the type is "none" when the key is
-- free.
local kind = redis.call('TYPE', KEYS[1]).ok
local value = ''
if kind == 'string' then value = redis.call('GET', KEYS[1]) end
local fence = KEYS[2] and tonumber(redis.pcall('GET', KEYS[2]) or 0) or 0
return {kind, value, redis.call('PTTL', KEYS[1]), fence}
