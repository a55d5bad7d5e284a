-- KEYS a key of ours | ARGV our channels' prefix, that of keyspace notifications
-- Checks whether the agent's user may run the commands of the other scripts; runs none of them. Returns an
-- error with the missing rights; POLL with the rights that are missing to subscribe to releases; or OK with
-- the optional rights that are there. A command that the server does not have is a right that is missing.
-- Servers before 7.0 can't answer this.
if not redis.acl_check_cmd then return redis.status_reply('OK keyspace config') end
-- The server raises an error for a command that it does not have (rename-command).
local function may(...)
  local known, allowed = pcall(redis.acl_check_cmd, ...)
  return known and allowed
end
local key = KEYS[1]
local commands = {
  {'EVALSHA', '', 0}, {'SCRIPT', 'LOAD', ''}, {'TIME'}, {'INFO', 'server'}, {'GET', key},
  {'SET', key, '1', 'NX', 'PX', 1}, {'DEL', key}, {'PEXPIRE', key, 1}, {'PTTL', key}, {'TYPE', key},
  {'HGET', key, '1'}, {'HSET', key, '1', '1'}, {'HMGET', key, '1'}, {'RENAME', key, key}, {'UNLINK', key},
}
local missing = {}
for _, command in ipairs(commands) do
  if not may(unpack(command)) then
    local name = string.lower(command[1])
    missing[#missing + 1] = '+' .. (name == 'script' and 'script|load' or name)
  end
end
if #missing > 0 then
  return redis.error_reply('NOPERM the user lacks these rights: ' .. table.concat(missing, ' '))
end
for _, command in ipairs({{'PUBLISH', ARGV[1], ''}, {'SUBSCRIBE', ARGV[1]}, {'UNSUBSCRIBE', ARGV[1]}}) do
  if not may(unpack(command)) then
    missing[#missing + 1] = '+' .. string.lower(command[1])
  end
end
if #missing > 0 then
  return redis.status_reply('POLL ' .. table.concat(missing, ' ') .. ' or &redlockd:*')
end
local out = 'OK'
if may('SUBSCRIBE', ARGV[2]) then out = out .. ' keyspace' end
if may('CONFIG', 'GET', 'notify-keyspace-events') then out = out .. ' config' end
return redis.status_reply(out)
