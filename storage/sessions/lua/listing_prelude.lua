-- Stands before every script of a user's list of sessions. The keys share one slot, {tenant:user}.
--   CREATED  zset  session id by time of creation (us)
--   EXPIRES  zset  session id by expiry (ms), never earlier than the session's own
--   TTL      hash  session id -> ttl (s)
--   FENCE    string  there while the user is being erased: nothing of his begins (only where it is given)
local CREATED, EXPIRES, TTL, FENCE = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local SLACK_MS = 1000 -- two nodes of a cluster have two clocks; an entry must outlive its session, or erasure would miss it

local time = redis.call('TIME')
local now_ms = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)

local function text(number)
  return string.format('%.0f', number)
end

local function listed(session)
  return redis.call('ZSCORE', EXPIRES, session)
end

local function put(session, ttl)
  redis.call('HSET', TTL, session, ttl)
  redis.call('ZADD', EXPIRES, text(now_ms + ttl * 1000 + SLACK_MS), session)
end

local function take(session)
  redis.call('ZREM', CREATED, session)
  redis.call('ZREM', EXPIRES, session)
  redis.call('HDEL', TTL, session)
end

local function sweep()
  for _, session in ipairs(redis.call('ZRANGEBYSCORE', EXPIRES, '-inf', text(now_ms))) do
    take(session)
  end
end

-- The list lives as long as the session that lives longest.
local function keep()
  local last = redis.call('ZREVRANGE', EXPIRES, 0, 0, 'WITHSCORES')[2]
  if last then
    for _, key in ipairs({CREATED, EXPIRES, TTL}) do
      redis.call('PEXPIREAT', key, last)
    end
  end
end

-- What follows is the script itself.
