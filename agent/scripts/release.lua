-- KEYS locks, each once | ARGV a value a key[, then another value a key], then the channels' prefix; '' to
-- tell nobody
-- Deletes each key that still has our value, whichever of them, and tells who waits for it. Answers per
-- key: 0 was not ours, or 1 deleted and one more for each that was told; 2 if we may not tell anybody.
-- Several names are read at once: that costs less. GET is for one, and for a user who lacks MGET.
local call, pcall = redis.call, redis.pcall
local n, out, prefix, gone = #KEYS, {0}, ARGV[#ARGV], 0
local others = #ARGV > n + 1
local held = n > 1 and pcall('MGET', unpack(KEYS))
for i = 1, n do
  local value = held and held[i] or pcall('GET', KEYS[i])
  if value == ARGV[i] or others and value == ARGV[n + i] then
    out[i] = 1
    gone = gone + 1
  else
    out[i] = 0
  end
end
-- As a rule all of them are.
if gone == n then call('DEL', unpack(KEYS)) end
for i = 1, n do
  if out[i] == 1 then
    if gone < n then call('DEL', KEYS[i]) end
    if prefix ~= '' then
      local heard = pcall('PUBLISH', prefix .. KEYS[i], '')
      out[i] = type(heard) == 'number' and 1 + heard or 2
    end
  end
end
return out
