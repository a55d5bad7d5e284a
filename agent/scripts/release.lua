-- KEYS locks | ARGV a value a key
-- Deletes each key that still has our value. Answers per key: 1 deleted, 0 was not ours.
local out = {}
for i = 1, #KEYS do
  out[i] = redis.pcall('GET', KEYS[i]) == ARGV[i] and redis.call('DEL', KEYS[i]) or 0
end
return out
