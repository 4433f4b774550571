-- ARGV: session, created (us), ttl (s), how many sessions a user may have
-- Answers {'new'}, {'known'}, {'fenced'}, or {'full', ms until the first place is free}.
if redis.call('EXISTS', FENCE) == 1 then
  return {'fenced'}
end
sweep()
local session, ttl = ARGV[1], tonumber(ARGV[3])
if listed(session) then
  put(session, math.max(ttl, tonumber(redis.call('HGET', TTL, session))))
  keep()
  return {'known'}
end
if redis.call('ZCARD', EXPIRES) >= tonumber(ARGV[4]) then
  local first = redis.call('ZRANGE', EXPIRES, 0, 0, 'WITHSCORES')[2]
  return {'full', math.max(tonumber(first or now_ms) - now_ms, 0)}
end
redis.call('ZADD', CREATED, ARGV[2], session)
put(session, ttl)
keep()
return {'new'}
