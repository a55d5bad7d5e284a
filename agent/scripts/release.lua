-- KEYS locks, each once | ARGV a value a key[, then another value a key], then the channels' prefix; '' to
-- publish nothing; a leading + to publish "left": agents leave the name to polling lock clients for a moment
-- Deletes each key that still has our value, or the other one, and publishes that. Returns nothing if all
-- were ours and no message had a subscriber; otherwise per key: 0 not ours; 1 + the number of subscribers:
-- deleted; 2, too, if the user may not publish.
-- MGET reads several keys at a lower cost. GET reads a single key, and each key for a user without MGET.
local call, pcall = redis.call, redis.pcall
local n, out, prefix, gone, published = #KEYS, {}, ARGV[#ARGV], 0, false
local message = ''
if string.byte(prefix) == 43 then
  prefix, message = string.sub(prefix, 2), 'left'
end
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
-- Usually all keys are ours.
if gone == n then call('DEL', unpack(KEYS)) end
for i = 1, n do
  if out[i] == 1 then
    if gone < n then call('DEL', KEYS[i]) end
    local subscribers = prefix ~= '' and pcall('PUBLISH', prefix .. KEYS[i], message) or 0
    if subscribers ~= 0 then
      out[i] = type(subscribers) == 'number' and 1 + subscribers or 2
      published = true
    end
  end
end
return (published or gone < n) and out or {}
