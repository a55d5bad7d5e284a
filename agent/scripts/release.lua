-- KEYS locks | ARGV a value a key[, then another value a key]
-- Deletes each key that still has our value, whichever of them. Answers per key: 1 deleted, 0 was not ours.
local n, out = #KEYS, {}
for i = 1, n do
  local held = redis.pcall('GET', KEYS[i])
  out[i] = (held == ARGV[i] or held and held == ARGV[n + i]) and redis.call('DEL', KEYS[i]) or 0
end
return out
