"""Atomic steps of the Redis server, as scripts.

Redis does not roll back a script in which a command fails. So each script first checks everything
that could fail, and writes only then. A server that runs out of memory lets a script that has begun
to write continue. The server logs the effects of a script as one transaction.
"""

# Publishes the staged lists, if the ledger is unchanged since it was read.
#
# KEYS: the ledger; the time at which each query has written; the list for an undo; the set of such
# lists; then the staged lists.
# ARGV: the old ledger, "" if there was none; the new ledger; the query; the time; the form of rows
# ("hash", "string", "stream"); the stream; their time to live in ms, 0 for unlimited; the prefix of
# values stored for an undo, "" if none; the epoch; then the number of elements of each list.
# A row is its key, the number of its parts, and the parts; -1 parts delete the key.
PUBLISH = """
local found = redis.call('GET', KEYS[1]) or ''
if found ~= ARGV[1] then return {'changed'} end
local kind, stream, lives, was, first = ARGV[5], ARGV[6], tonumber(ARGV[7]), ARGV[8], 5

local function rows(each)
  for at = first, #KEYS do
    local list, size = KEYS[at], tonumber(ARGV[9 + at - first + 1])
    local chunk, read, used = {}, 0, 0
    local function following()
      if used == #chunk then
        chunk = redis.call('LRANGE', list, read, read + 1999)
        read, used = read + #chunk, 0
      end
      used = used + 1
      return chunk[used]
    end
    local passed = 0
    while passed < size do
      local key, count = following(), tonumber(following())
      local parts = {}
      for part = 1, count do parts[part] = following() end
      passed = passed + 2 + math.max(count, 0)
      each(key, count, parts)
    end
  end
end

for at = first, #KEYS do
  local wanted = tonumber(ARGV[9 + at - first + 1])
  local there = redis.call('TYPE', KEYS[at]).ok
  if there ~= 'list' or redis.call('LLEN', KEYS[at]) ~= wanted then
    return {'lost', KEYS[at]}
  end
end
if kind == 'stream' then
  local there = redis.call('TYPE', stream).ok
  if there ~= 'stream' and there ~= 'none' then return {'type', there} end
else
  local seen, duplicates = {}, 0
  rows(function(key)
    if seen[key] then duplicates = duplicates + 1 end
    seen[key] = true
  end)
  if duplicates > 0 then return {'duplicates', duplicates} end
end

rows(function(key, count, parts)
  if kind == 'stream' then
    local id = redis.call('XADD', stream, '*', unpack(parts))
    if was ~= '' then redis.call('RPUSH', KEYS[3], stream, id) end
    return
  end
  if was ~= '' then
    local there = redis.call('EXISTS', key)
    if there == 1 then redis.call('RENAME', key, was .. key) end
    redis.call('RPUSH', KEYS[3], key, there)
  else
    redis.call('DEL', key)
  end
  if count < 1 then return end
  if kind == 'string' then
    redis.call('SET', key, parts[1])
  else
    redis.call('HSET', key, unpack(parts))
  end
  if lives > 0 then redis.call('PEXPIRE', key, lives) end
end)
if was ~= '' and redis.call('EXISTS', KEYS[3]) == 1 then redis.call('SADD', KEYS[4], ARGV[9]) end
redis.call('SET', KEYS[1], ARGV[2])
redis.call('HSET', KEYS[2], ARGV[3], ARGV[4])
for at = first, #KEYS do redis.call('UNLINK', KEYS[at]) end
return {'done'}
"""

# Writes the ledger and undoes the changes of epochs, if the ledger is unchanged since it was read.
#
# KEYS: the ledger; the set of lists for an undo; then these lists, the last epoch first.
# ARGV: the old ledger, "" if there was none; the new ledger; the form of rows; then for each list
# its epoch and the prefix of the values stored for it.
TAKE_OVER = """
local found = redis.call('GET', KEYS[1]) or ''
if found ~= ARGV[1] then return {'changed'} end
for at = 3, #KEYS do
  local epoch, was = ARGV[4 + 2 * (at - 3)], ARGV[5 + 2 * (at - 3)]
  local size = redis.call('LLEN', KEYS[at])
  for from = 0, size - 1, 2000 do
    local chunk = redis.call('LRANGE', KEYS[at], from, from + 1999)
    for pair = 1, #chunk, 2 do
      local key, kept = chunk[pair], chunk[pair + 1]
      if ARGV[3] == 'stream' then
        redis.call('XDEL', key, kept)
      elseif kept == '1' and redis.call('EXISTS', was .. key) == 1 then
        redis.call('RENAME', was .. key, key)
      else
        -- It was not there, or would not live any more.
        redis.call('DEL', key)
      end
    end
  end
  redis.call('DEL', KEYS[at])
  redis.call('SREM', KEYS[2], epoch)
end
redis.call('SET', KEYS[1], ARGV[2])
return {'done'}
"""
