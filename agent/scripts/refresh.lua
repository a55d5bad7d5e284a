-- KEYS lock, epoch[, fences, former fences] | ARGV value, ttl in ms, epoch, former value[, token]
-- Extends the key that has the value, or replaces the former value: the lease has another holder. The
-- holder's token is stored where the node has accepted one as large, as the last one of a block, or where
-- the floor is as large, as after a loss of the node's data: so the present table has both tokens, and they
-- stay known for fence_retention from now on. A fence below the floor, the epoch's third word, counts as the
-- floor, so what the node accepts stays the same. The floor itself is not stored: it ends with its epoch, as
-- when the node's clock was wrong. Returns {as extend for one key, TIME in us}; as there, a missing key of a
-- lease that was resumed is not set.
if redis.pcall('GET', KEYS[2]) ~= ARGV[3] then return redis.error_reply('EPOCH changed') end
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local held, done = redis.pcall('GET', KEYS[1]), 0
if held == ARGV[1] then
  done = redis.pcall('PEXPIRE', KEYS[1], ARGV[2])
elseif held == false or held == ARGV[4] then
  local pattern, mine = '^(%x+)(:[^:]*:[^:]*:)', string.gsub(ARGV[1], '^8589936739483647:', '')
  local digits, agent = string.match(mine, pattern)
  local hash = redis.sha1hex(string.sub(digits or '', 1, 36))
  local moved = not held and redis.pcall('GET', 'redlockd:moved:' .. hash)
  local number, other = string.match(type(moved) == 'string' and moved or '', pattern)
  local later = number and (tonumber(number, 16) - tonumber(string.sub(digits, 37), 16)) % 65536
  if not number or later >= 32768 or later == 0 and other == agent then
    -- A full node refuses SET as a script's first write, but not PEXPIRE.
    if held then redis.pcall('PEXPIRE', KEYS[1], ARGV[2]) end
    done = redis.pcall('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
    if not done.err then done = held and 1 or 2 end
  end
elseif type(held) == 'string' then
  done = {string.sub(held, 1, 2048)}
end
if type(done) == 'table' then return {done.err or done, now} end
if done > 0 and KEYS[3] then
  local fence = redis.pcall('HGET', KEYS[3], KEYS[1])
  if type(fence) ~= 'string' then fence = redis.pcall('HGET', KEYS[4], KEYS[1]) end
  local largest = type(fence) == 'string' and string.match(fence, '^%d+') or '0'
  local floor = string.match(ARGV[3], '^%S+ %S+ (%d+)') or '0'
  local token = tonumber(ARGV[5])
  if tonumber(largest) < token and token <= tonumber(floor) then largest = ARGV[5] end
  if tonumber(largest) >= token then
    redis.pcall('HSET', KEYS[3], KEYS[1], largest == ARGV[5] and largest or largest .. ' ' .. ARGV[5])
  end
end
return {done, now}
