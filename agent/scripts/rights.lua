-- KEYS one of ours
-- May the user whom the agent logged in as do what the other scripts do? Asks, and runs nothing. Answers OK,
-- or an error with what it may not do. Servers before 7.0 can't be asked.
if not redis.acl_check_cmd then return redis.status_reply('OK') end
local key = KEYS[1]
local commands = {
  {'EVALSHA', '', 0}, {'TIME'}, {'INFO', 'server'}, {'GET', key}, {'SET', key, '1', 'NX', 'PX', 1},
  {'DEL', key}, {'PEXPIRE', key, 1}, {'PTTL', key}, {'TYPE', key}, {'HGET', key, '1'},
  {'HSET', key, '1', '1'},
}
local missing = {}
for _, command in ipairs(commands) do
  if not redis.acl_check_cmd(unpack(command)) then
    missing[#missing + 1] = '+' .. string.lower(command[1])
  end
end
if #missing == 0 then return redis.status_reply('OK') end
return redis.error_reply('NOPERM the user lacks these rights: ' .. table.concat(missing, ' '))
