-- KEYS locks | ARGV a value a key
-- Deletes each key that still has our value. Answers per key: 1 deleted, 0 was not ours.
local out = {}
for i = 1, #KEYS do
  if redis.pcall('GET', KEYS[i]) == ARGV[i] then
    out[i] = redis.call('DEL', KEYS[i])
  else
    out[i] = 0
  end
end
return out
