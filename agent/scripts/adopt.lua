-- KEYS locks, then epoch | ARGV a value a key, then a ttl in ms a key, then epoch[, identities of agents]
-- Replaces the value of each key of the same lease, that is, if it differs from ours in agent and process
-- only, and in the last four digits, a serial number, which must not be later than ours. With identities,
-- ":host:agent:" each, a value with our number must have one of them. Returns TIME in us, then per key:
-- 1 replaced and extended, 2 missing, 0 another's, or the text of the error when the node rejects writes. An
-- error unless the node's epoch is the one that the agent trusts.
-- The key redlockd:moved:HASH notes, by a hash of the digits that all values of the lease share, the number
-- and the agent of a resumed lease: extend sets no missing key again for another one. The note lasts two
-- ttls: the former agent can extend the lease until this script has run on a majority, almost a ttl after
-- the first node, and then holds the lease for another ttl.
local n = #KEYS - 1
if redis.pcall('GET', KEYS[n + 1]) ~= ARGV[2 * n + 1] then return redis.error_reply('EPOCH changed') end
local agents = ARGV[2 * n + 2]
-- The lease of a value, the identity of its agent, and its number. The leading digits are the time of
-- legacy_setnx.
local function parts(value)
  value = string.gsub(value, '^8589936739483647:', '')
  local digits, host, agent, rest = string.match(value, '^(%x+):([^:]*):([^:]*):[^:]*(:.*)$')
  if not digits or #digits ~= 40 then return value end
  local lease = string.sub(digits, 1, 36) .. ':' .. host .. rest
  return lease, ':' .. host .. ':' .. agent .. ':', tonumber(string.sub(digits, 37), 16)
end
local function may_replace(held, value)
  local lease, agent, number = parts(held)
  local wanted, _, ours = parts(value)
  if not agent or lease ~= wanted then return false end
  local later = (ours - number) % 65536
  if later > 0 or not agents then return later < 32768 end
  return string.find(agents, agent, 1, true)
end
local time = redis.call('TIME')
local out = {time[1] * 1000000 + time[2]}
for i = 1, n do
  local held = redis.pcall('GET', KEYS[i])
  if type(held) == 'string' and may_replace(held, ARGV[i]) then
    -- A full node refuses SET as a script's first write, but not PEXPIRE.
    redis.pcall('PEXPIRE', KEYS[i], ARGV[n + i])
    local done = redis.pcall('SET', KEYS[i], ARGV[i], 'PX', ARGV[n + i])
    out[1 + i] = done.err or 1
    if not done.err then
      local lease, agent, ours = parts(ARGV[i])
      local moved = 'redlockd:moved:' .. redis.sha1hex(string.sub(lease, 1, 36))
      local _, _, number = parts(held)
      if not agents or number ~= ours or redis.pcall('GET', moved) then
        local lasts_ms = string.format('%.0f', 2 * ARGV[n + i])
        redis.pcall('SET', moved, string.format('%04x', ours) .. agent, 'PX', lasts_ms)
      end
    end
  else
    out[1 + i] = held == false and 2 or 0
  end
end
return out
