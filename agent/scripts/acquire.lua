-- KEYS lock, epoch | ARGV value, ttl in ms, epoch
-- Takes the key if it is free. Answers {1, TIME in us}, or {0, TIME, type, value, ttl left in ms} of what
-- stands there; an error when the node is no longer the one that the agent trusts.
if redis.pcall('GET', KEYS[2]) ~= ARGV[3] then return redis.error_reply('EPOCH changed') end
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then return {1, now} end
local kind = redis.call('TYPE', KEYS[1]).ok
local value = ''
if kind == 'string' then value = redis.call('GET', KEYS[1]) end
return {0, now, kind, value, redis.call('PTTL', KEYS[1])}
