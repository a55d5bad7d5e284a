-- KEYS lock, epoch[, fence] | ARGV value, ttl in ms, epoch[, token, floor, fence_skew in us, fence_retention
-- in ms[, last token of its block]]
-- Takes the key if it is free, and accepts the token, with all up to the last one, if it is larger than all
-- before. The fence key has the last one, and behind it the holder's own if that is another. Answers {1,
-- TIME in us} or {1, TIME, verdict, largest token accepted}, see raise; or {0, TIME, type, value, ttl left
-- in ms} of what stands there; an error when the node is no longer the one that the agent trusts. The floor
-- is the epoch's last word: it is given once more since searching for it takes longer than all the rest.
if redis.pcall('GET', KEYS[2]) ~= ARGV[3] then return redis.error_reply('EPOCH changed') end
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
if not redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then
  local kind = redis.call('TYPE', KEYS[1]).ok
  local value = ''
  if kind == 'string' then value = redis.call('GET', KEYS[1]) end
  return {0, now, kind, value, redis.call('PTTL', KEYS[1])}
end
if not KEYS[3] then return {1, now} end
local token, floor, skew = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
local last, fence = tonumber(ARGV[8] or token), redis.pcall('GET', KEYS[3])
fence = type(fence) == 'string' and tonumber(string.match(fence, '^%d+')) or 0
if fence < floor then fence = floor end
if token <= fence then return {1, now, 0, fence} end
if last - now > skew or now - token > skew then return {1, now, -1, fence} end
redis.call('SET', KEYS[3], ARGV[8] and ARGV[8] .. ' ' .. ARGV[4] or ARGV[4], 'PX', ARGV[7])
return {1, now, 1, last}
