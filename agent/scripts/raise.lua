-- KEYS lock, epoch, fence | ARGV value, token, epoch, floor, fence_skew in us, fence_retention in ms[, last
-- token of its block]
-- Accepts the token for the holder of the lock, if it is larger than all before, as acquire does. Answers
-- {verdict, TIME in us, largest token accepted}: 1 accepted; 0 a larger one was; -1 it is too far from this
-- node's clock; -2 the lock is not ours. A missing fence key counts as the floor, the epoch's last word. An
-- error when the node is no longer the one that the agent trusts.
if redis.pcall('GET', KEYS[2]) ~= ARGV[3] then return redis.error_reply('EPOCH changed') end
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local token, floor, skew = tonumber(ARGV[2]), tonumber(ARGV[4]), tonumber(ARGV[5])
local last, fence = tonumber(ARGV[7] or token), redis.pcall('GET', KEYS[3])
fence = type(fence) == 'string' and tonumber(string.match(fence, '^%d+')) or 0
if fence < floor then fence = floor end
if redis.pcall('GET', KEYS[1]) ~= ARGV[1] then return {-2, now, fence} end
if token <= fence then return {0, now, fence} end
if last - now > skew or now - token > skew then return {-1, now, fence} end
redis.call('SET', KEYS[3], ARGV[7] and ARGV[7] .. ' ' .. ARGV[2] or ARGV[2], 'PX', ARGV[6])
return {1, now, last}
