-- KEYS locks, then epoch | ARGV a value a key, then a ttl in ms a key, then epoch
-- Extends each key that has our value. Returns TIME in us, alone if all keys were extended; otherwise
-- followed per key by: 1 extended, 2 missing and set again (no vote in this round), {value} another's, its
-- first 2,048 bytes, 0 of another type, or missing because another agent has resumed the lease (see adopt),
-- or the text of the error when the node rejects writes. An error unless the node's epoch is the one that
-- the agent trusts.
-- MGET reads several keys at a lower cost. GET reads a single key, or each key for a user without MGET; GET
-- distinguishes a missing key from one of another type, MGET does not.
local pcall, n = redis.pcall, #KEYS - 1
local held = n > 1 and pcall('MGET', unpack(KEYS))
local epoch = held and held[n + 1] or pcall('GET', KEYS[n + 1])
if epoch ~= ARGV[2 * n + 1] then return redis.error_reply('EPOCH changed') end
local time = redis.call('TIME')
local out, extended = {time[1] * 1000000 + time[2], 0}, 0
for i = 1, n do
  local value, answer = held and held[i] or pcall('GET', KEYS[i]), 0
  if value == ARGV[i] then
    answer = pcall('PEXPIRE', KEYS[i], ARGV[n + i])
    if type(answer) == 'table' then answer = answer.err end
  elseif value == false then
    local pattern, mine = '^(%x+)(:[^:]*:[^:]*:)', string.gsub(ARGV[i], '^8589936739483647:', '')
    local digits, agent = string.match(mine, pattern)
    local hash = redis.sha1hex(string.sub(digits or '', 1, 36))
    local moved = pcall('GET', 'redlockd:moved:' .. hash)
    local number, other = string.match(type(moved) == 'string' and moved or '', pattern)
    local later = number and (tonumber(number, 16) - tonumber(string.sub(digits, 37), 16)) % 65536
    if not number or later >= 32768 or later == 0 and other == agent then
      local done = pcall('SET', KEYS[i], ARGV[i], 'NX', 'PX', ARGV[n + i])
      answer = done and (done.err or 2) or 0
    end
  elseif type(value) ~= 'table' then
    answer = {string.sub(value, 1, 2048)}
  end
  out[1 + i] = answer
  if answer == 1 then extended = extended + 1 end
end
if extended == n then return {out[1]} end
return out
