-- KEYS epoch, then locks, each once[, then a fence a lock] | ARGV epoch, the floor or '' without fencing,
-- fence_skew in us, fence_retention in ms, then a value a lock, then a ttl in ms a lock[, then a token a
-- lock[, then the last token of its block a lock]]
-- Takes each key if it is free, and accepts the token, with all up to the last one, if it is larger than all
-- before. The fence key has the last one, and behind it the holder's own if that is another. Answers TIME in
-- us, then per lock
--   if it was taken: the largest token accepted, now its own; 0 without fencing
--   if it was, but the token not accepted: {verdict, largest token accepted}, see raise
--   if not: {type, value, ttl left in ms} of what stands there; of a long value its beginning
--   or the text of the error when the node takes no writes.
-- An error when the node is no longer the one that the agent trusts. The floor is the epoch's last word: it
-- is given once more since searching for it takes longer than all the rest. The epoch and the fences are
-- read at once if there are several names: that costs less. GET is for one, and for a user who lacks MGET.
local pcall = redis.pcall
local floor, skew, n = tonumber(ARGV[2]), tonumber(ARGV[3]), #KEYS - 1
if floor then n = n / 2 end
local kept = floor and n > 1 and pcall('MGET', KEYS[1], unpack(KEYS, n + 2))
if (kept and kept[1] or pcall('GET', KEYS[1])) ~= ARGV[1] then return redis.error_reply('EPOCH changed') end
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local out = {now, 0}
for i = 1, n do
  local key, answer = KEYS[1 + i], pcall('SET', KEYS[1 + i], ARGV[4 + i], 'NX', 'PX', ARGV[4 + n + i])
  if not answer then
    local kind, value = pcall('TYPE', key), ''
    if kind.ok == 'string' then value = pcall('GET', key) end
    if type(value) == 'string' then value = string.sub(value, 1, 2048) end
    answer = kind.err or {kind.ok, value, pcall('PTTL', key)}
  elseif answer.err then
    answer = answer.err
  elseif floor then
    local text, block, fence = ARGV[4 + 2 * n + i], ARGV[4 + 3 * n + i], kept and kept[1 + i]
    if not kept or fence == nil then fence = pcall('GET', KEYS[1 + n + i]) end
    local token = tonumber(text)
    local last = block and tonumber(block) or token
    local far, largest = last - now > skew or now - token > skew, floor
    -- Of two numbers with as many digits the larger one is the larger text.
    if type(fence) == 'string' and (far or #fence ~= #text or fence >= text) then
      largest = math.max(floor, tonumber(string.match(fence, '^%d+')) or 0)
    end
    if token <= largest then
      answer = {0, largest}
    elseif far then
      answer = {-1, largest}
    else
      local done = pcall('SET', KEYS[1 + n + i], block and block .. ' ' .. text or text, 'PX', ARGV[4])
      answer = done.err or last
    end
  else
    answer = 0
  end
  out[1 + i] = answer
end
return out
