-- KEYS lock, epoch, fences, former fences | ARGV value, token, epoch, floor, fence_skew in us[, last token
-- of its block]
-- Accepts the token for the holder of the lock, if it is larger than all before, as acquire does. Returns
-- {verdict, TIME in us, largest token accepted}: 1 accepted; 0 a larger one was accepted before; -1 the
-- token is too far from this node's clock; -2 the lock is not ours. A missing fence counts as the floor, the
-- epoch's third word. An error unless the node's epoch is the one that the agent trusts.
if redis.pcall('GET', KEYS[2]) ~= ARGV[3] then return redis.error_reply('EPOCH changed') end
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local token, floor, skew = tonumber(ARGV[2]), tonumber(ARGV[4]), tonumber(ARGV[5])
local last = tonumber(ARGV[6] or token)
local fence = redis.pcall('HGET', KEYS[3], KEYS[1])
if type(fence) ~= 'string' then fence = redis.pcall('HGET', KEYS[4], KEYS[1]) end
fence = type(fence) == 'string' and tonumber(string.match(fence, '^%d+')) or 0
if fence < floor then fence = floor end
if redis.pcall('GET', KEYS[1]) ~= ARGV[1] then return {-2, now, fence} end
if token <= fence then return {0, now, fence} end
if last - now > skew or now - token > skew then return {-1, now, fence} end
redis.call('HSET', KEYS[3], KEYS[1], ARGV[6] and ARGV[6] .. ' ' .. ARGV[2] or ARGV[2])
return {1, now, last}
