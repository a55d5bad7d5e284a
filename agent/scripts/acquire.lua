-- KEYS epoch[, fences, former fences], then locks, each once | ARGV epoch, the floor or '' without fencing,
-- fence_skew in us, fence_retention in ms, 1 if each lock has the following arguments or 0 if one is for
-- all, a value a lock (always), ttl in ms[, token[, the last token of its block]]
-- Sets each free key, and accepts its token (and the rest of its block) if the token is larger than all
-- accepted before. Returns TIME in us, alone if every lock was set and its token accepted; otherwise
-- followed by one value per lock:
--   1: set, token accepted
--   {verdict, largest token accepted}: set, token not accepted; verdicts as in raise
--   {type, value, ttl left in ms} of the present key: not set; a long value is cut
--   the text of the error: the node rejects writes.
-- If our value begins with the far time of legacy_setnx, the script deletes an ended lock of the SETNX and
-- GETSET pattern, and returns type none. Only the next attempt sets the key: another client that has read
-- the ended lock, too, may overwrite the key meanwhile.
-- Returns an error unless the node's epoch is the one that the agent trusts. The floor is the epoch's third
-- word, passed as an argument because parsing the epoch takes longer than the rest of the script.
-- Fences is a hash table. By lock: the largest token accepted, followed by the holder's own if they differ.
-- Under '': the time of the table's begin. After fence_retention a new table begins, and this one becomes
-- the former one, which counts for locks that the new one lacks. Tables are unlinked in the background and
-- never expire, because freeing a large one would stop the server for seconds.
local pcall = redis.pcall
local floor, step, n = tonumber(ARGV[2]), tonumber(ARGV[5]), #KEYS - 1
if pcall('GET', KEYS[1]) ~= ARGV[1] then return redis.error_reply('EPOCH changed') end
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local kept, older
if floor then
  n = n - 2
  kept = pcall('HMGET', KEYS[2], '', unpack(KEYS, 4))
  if kept.err and not string.find(kept.err, 'WRONGTYPE', 1, true) then return kept end
end
local locks, more, each = #KEYS - n, 6 + n - step, step == 1 and n or 1
local skew, put, used, odd, refused, token, far, stored = tonumber(ARGV[3]), {}, 0
for i = 1, n do
  local key = KEYS[locks + i]
  local answer = pcall('SET', key, ARGV[5 + i], 'NX', 'PX', ARGV[more + i * step])
  if not answer then
    local kind, value = pcall('TYPE', key), ''
    if kind.ok == 'string' then value = pcall('GET', key) end
    if type(value) == 'string' then value = string.sub(value, 1, 2048) end
    answer = kind.err or {kind.ok, value, pcall('PTTL', key)}
    if answer[3] == -1 and string.sub(ARGV[5 + i], 1, 17) == '8589936739483647:' then
      -- In s, ms or us since 1970; a second more, because some clients round.
      local ended = tonumber(string.match(value, '^%d+') or 0)
      ended = ended * (ended < 1e11 and 1000000 or ended < 1e14 and 1000 or 1)
      if ended >= 1e15 and ended + 1000000 < now then
        pcall('DEL', key)
        answer = {'none', '', -2}
      end
    end
  elseif floor and not answer.err then
    local text, block = ARGV[more + each + i * step], ARGV[more + 2 * each + i * step]
    local fence, largest = kept[1 + i], floor
    if not token or step == 1 then
      token, stored = tonumber(text), block and block .. ' ' .. text or text
      far = tonumber(block or text) - now > skew or now - token > skew
    end
    if not fence then
      older = older or pcall('HMGET', KEYS[3], unpack(KEYS, 4))
      fence = older[i]
    end
    -- Numbers with the same number of digits compare as text.
    if fence and (far or #fence ~= #text or fence >= text) then
      largest = math.max(floor, tonumber(string.match(fence, '^%d+')) or 0)
    end
    if token <= largest then
      answer = {0, largest}
    elseif far then
      answer = {-1, largest}
    else
      put[used + 1], put[used + 2] = key, stored
      used = used + 2
      answer = nil
    end
  else
    answer = answer.err
  end
  if answer then
    odd = odd or {}
    odd[i] = answer
  end
end
-- After the locks: once a script has run a command that a full server accepts, such as UNLINK, the server
-- accepts all that follows.
if floor then
  local since = tonumber(string.match(kept[1] or '', '^%d+') or 0)
  local age = now - since
  local old = since > 0 and age > ARGV[4] * 1000
  if old then
    pcall('UNLINK', KEYS[3])
    pcall('RENAME', KEYS[2], KEYS[3])
  elseif kept.err and used > 0 then
    pcall('UNLINK', KEYS[2])
  end
  if old or since == 0 or age < 0 then
    -- The text is long so that Redis stores small tables as hash tables, too, which is faster.
    local about = ' us since 1970: since then. By lock: the largest fencing token accepted.'
    put[used + 1], put[used + 2] = '', string.format('%.0f', now) .. about
  end
  local done = put[1] and pcall('HSET', KEYS[2], unpack(put))
  refused = type(done) == 'table' and done.err
end
if not odd and not refused then return {now} end
local out = {now}
odd = odd or {}
for i = 1, n do out[1 + i] = odd[i] or refused or 1 end
return out
