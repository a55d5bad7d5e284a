-- KEYS locks | ARGV a value a key[, then another value a key], then the channels' prefix; '' to tell nobody
-- Deletes each key that still has our value, whichever of them, and tells who waits for it. Answers per
-- key: 0 was not ours, or 1 deleted and one more for each that was told.
local n, out, prefix = #KEYS, {}, ARGV[#ARGV]
local others = #ARGV > n + 1
for i = 1, n do
  local held = redis.pcall('GET', KEYS[i])
  local ours = held == ARGV[i] or others and held == ARGV[n + i]
  local gone = ours and redis.call('DEL', KEYS[i]) or 0
  if gone == 1 and prefix ~= '' then
    local heard = redis.pcall('PUBLISH', prefix .. KEYS[i], '')
    if type(heard) == 'number' then gone = gone + heard end
  end
  out[i] = gone
end
return out
