-- KEYS locks, each once | ARGV a value a key[, then another value a key], then the channels' prefix; '' to
-- tell nobody
-- Deletes each key that still has our value, whichever of them, and tells who waits for it. Answers nothing
-- if all were ours and nobody was told; otherwise per key: 0 was not ours, or 1 deleted and one more for
-- each that was told; 2 if we may not tell anybody.
-- Several names are read at once: that costs less. GET is for one, and for a user who lacks MGET.
local call, pcall = redis.call, redis.pcall
local n, out, prefix, gone, told = #KEYS, {}, ARGV[#ARGV], 0, false
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
    local heard = prefix ~= '' and pcall('PUBLISH', prefix .. KEYS[i], '') or 0
    if heard ~= 0 then
      out[i] = type(heard) == 'number' and 1 + heard or 2
      told = true
    end
  end
end
return (told or gone < n) and out or {}
