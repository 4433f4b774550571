-- Stands before every script of a session. The five keys share one slot, {tenant:session}; META's name holds the user, so a
-- session of another user is simply not there.
--   OWNER  string  the user's id
--   META   hash    created, ttl, next (last seq given), time_zone, language, metadata, state, version, preloaded; and, until its
--                  place in the user's list is confirmed, opening: such a session is not there yet for anybody else
--   ORDER  zset    turn id by seq
--   TURNS  hash    turn id -> body
--   ASKED  zset    the user's own turns, by seq
local OWNER, META, ORDER, TURNS, ASKED = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local CHUNK = 1000 -- unpack() has a limited stack

local function exists()
  local held = redis.call('HMGET', META, 'ttl', 'opening')
  return held[1] and not held[2]
end

-- All keys of the session die at the same millisecond. Returns it, as text. Comes last: a key made before it has no TTL yet.
local function live_for(ms)
  local time = redis.call('TIME')
  local now_ms = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
  local at = string.format('%.0f', now_ms + ms)
  for _, key in ipairs(KEYS) do
    redis.call('PEXPIREAT', key, at)
  end
  return at
end

local function renew()
  return live_for(tonumber(redis.call('HGET', META, 'ttl')) * 1000)
end

local function session(expires)
  local fields = redis.call('HMGET', META, 'created', 'time_zone', 'language', 'metadata', 'ttl')
  return {expires, redis.call('ZCARD', ORDER), unpack(fields)}
end

-- id, seq, id, seq, ... -> {ids and seqs, bodies}
local function with_bodies(ids_and_seqs)
  local bodies = {}
  for first = 1, #ids_and_seqs, 2 * CHUNK do
    local ids = {}
    for i = first, math.min(first + 2 * CHUNK, #ids_and_seqs + 1) - 1, 2 do
      ids[#ids + 1] = ids_and_seqs[i]
    end
    for _, body in ipairs(redis.call('HMGET', TURNS, unpack(ids))) do
      bodies[#bodies + 1] = body
    end
  end
  return {ids_and_seqs, bodies}
end

-- Takes the turns with first <= seq <= last away and returns them, oldest first.
local function cut(first, last)
  local removed = with_bodies(redis.call('ZRANGEBYSCORE', ORDER, first, last, 'WITHSCORES'))
  for i = 1, #removed[1], 2 do
    redis.call('HDEL', TURNS, removed[1][i])
  end
  redis.call('ZREMRANGEBYSCORE', ORDER, first, last)
  redis.call('ZREMRANGEBYSCORE', ASKED, first, last)
  return removed
end

-- What follows is the script itself.
