-- KEYS lock
-- Answers {type, value, ttl left in ms}; the type is "none" when the key is free.
local kind = redis.call('TYPE', KEYS[1]).ok
local value = ''
if kind == 'string' then value = redis.call('GET', KEYS[1]) end
return {kind, value, redis.call('PTTL', KEYS[1])}
