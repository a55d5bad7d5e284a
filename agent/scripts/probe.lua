-- KEYS epoch, marks, nodes | ARGV the caller's field in marks, its mark's number, the marks' ttl in ms,
-- whether to leave the mark, a floor or 0, the run_id of the former process if all of its data must be here,
-- or '', whether its blessing must not be inherited, the caller's fleet, the fleet's text for people, its
-- max_ttl in ms, whether only a rested node counts, its settings, then for each of its nodes the name, the
-- address, and 1 if the node is known to be of the fleet
-- Checks whether the epoch names this very process, and counts for the caller. Returns
--   {1, TIME in us, epoch, 0, ...}: yes
--   {0, TIME, 2, ...}: the epoch names the former process
--   {0, TIME, whether the mark is present, longest max_ttl, ...}: no.
-- While a mark is present, the node has lost nothing since the mark was left, and no agent has blessed the
-- node. The mark names the process, so the mark of a process that returns with old data proves nothing. An
-- epoch of the caller's fleet with the given floor is withdrawn first.
-- The ... are: {fleet, its text, 1 if the epoch is of it} if the epoch (of any process) or another mark
-- belongs to another fleet; whether the node was blessed unrested; settings of another agent that differ;
-- and for each node 1 if other agents reach it at another address, and none at this one. These addresses are
-- noted by the first agent that waits for a fleet to begin, and later by each agent that knows a node to be
-- of the fleet.
local call, pcall = redis.call, redis.pcall
local time = call('TIME')
local now = time[1] * 1000000 + time[2]
local epoch = pcall('GET', KEYS[1])
if type(epoch) ~= 'string' then epoch = '' end
local process, max_ttl, floor, fleet, rested = string.match(epoch, '^(%w+) (%d+) (%d+) (%x+) (%a+) %d+')
local longest = tonumber(max_ttl or string.match(epoch, '^%w+ (%d+) %d+$') or 0)
local run_id = string.match(call('INFO', 'server'), 'run_id:(%w+)')

-- Two places for texts, each for a limited time, so that agents with different texts see each other's.
local function exchange(key, field, mine, lasts_us, keeps_us)
  local places = call('HMGET', key, field, field .. ':2')
  local other, place
  for i = 1, 2 do
    local at, text = string.match(places[i] or '', '^(%d+) (.*)$')
    local age = at and math.abs(now - at) or lasts_us
    if text == mine then
      place = age < keeps_us and 0 or place ~= 0 and i
    elseif age < lasts_us then
      other = text
    else
      place = place or i
    end
  end
  local name = place == 1 and field or place == 2 and field .. ':2'
  if name then pcall('HSET', key, name, string.format('%.0f ', now) .. mine) end
  return other
end

local blessed = process == run_id
local theirs, mark = fleet and fleet ~= ARGV[8] and fleet or '', 0
local foreign = theirs ~= '' and 1 or 0
if theirs == '' and (blessed and floor == ARGV[5] or process and not blessed and ARGV[7] == '1') then
  call('DEL', KEYS[1])
  blessed, process = false, nil
end
local unrested = blessed and ARGV[11] == '1' and rested ~= 'rested'
blessed = blessed and not unrested
if blessed then
  mark = epoch
elseif process and process == ARGV[6] and (rested == 'rested' or ARGV[11] ~= '1') then
  mark = 2
else
  local own = ARGV[2] .. ' ' .. run_id
  if ARGV[4] == '1' then
    call('HSET', KEYS[2], ARGV[1], own)
    mark = 1
  elseif pcall('HGET', KEYS[2], ARGV[1]) == own then
    mark = 1
  end
  if mark == 1 then
    local known = tonumber(call('HGET', KEYS[2], 'max_ttl') or 0)
    if known < tonumber(ARGV[10]) then call('HSET', KEYS[2], 'max_ttl', ARGV[10]) end
    longest = math.max(longest, known)
    theirs = exchange(KEYS[2], 'fleet', ARGV[8], 10000000, 0) or theirs
    call('PEXPIRE', KEYS[2], ARGV[3])
  end
end
local names = {'=' .. theirs, '=' .. ARGV[8]}
for i = 13, #ARGV, 3 do names[#names + 1] = ARGV[i] end
local notes = call('HMGET', KEYS[3], unpack(names))
local differing = exchange(KEYS[3], ':settings', ARGV[12], 180000000, 60000000)
if not notes[2] then pcall('HSET', KEYS[3], names[2], ARGV[9]) end
local other_fleet = theirs ~= '' and {theirs, notes[1] or '', foreign} or ''
local out = {blessed and 1 or 0, now, mark, longest, other_fleet, unrested and 1 or 0, differing or ''}
-- A line for each address: the time, whether the node there is known to be of the fleet or noted by the
-- first agent, and the address. An agent that reaches a node there renews the line every minute.
for i = 3, #names do
  local address, known, lines, others = ARGV[5 + 3 * i], ARGV[6 + 3 * i] == '1', {}, {}
  local age, own
  for at, how, noted in string.gmatch(notes[i] or '', '(%d+) (%a+) ([^\n]*)') do
    local noted_age = math.abs(now - at)
    if noted_age < 180000000 and noted == address then
      age, own = noted_age, how
    elseif noted_age < 180000000 then
      others[how] = true
      lines[#lines + 1] = at .. ' ' .. how .. ' ' .. noted
    end
  end
  local first = mark == 1 and ARGV[11] == '1' and #lines == 0
  local due = not age or age > 60000000 or known and own ~= 'known'
  if theirs == '' and (known or first) and due and #lines < 16 then
    own = known and 'known' or 'first'
    lines[#lines + 1] = string.format('%.0f ', now) .. own .. ' ' .. address
    pcall('HSET', KEYS[3], names[i], table.concat(lines, '\n'))
  end
  out[5 + i] = own ~= 'known' and (others.known or others.first and not own) and 1 or 0
end
return out
