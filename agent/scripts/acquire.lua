-- KEYS lock | ARGV value, ttl in ms
-- Takes the key if it is free. Answers 1, or {type, value, ttl left in ms} of what stands there.
if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then return 1 end
local kind = redis.call('TYPE', KEYS[1]).ok
local value = ''
if kind == 'string' then value = redis.call('GET', KEYS[1]) end
return {kind, value, redis.call('PTTL', KEYS[1])}
