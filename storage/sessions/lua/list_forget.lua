-- ARGV: for how long nothing of this user may begin (ms); 0: it may
-- Answers the sessions that were in the list. Whatever is being opened meanwhile finds its place gone.
local ms = tonumber(ARGV[1])
if ms > 0 and redis.call('PTTL', FENCE) < ms then
  redis.call('SET', FENCE, 1, 'PX', ms)
end
local sessions = redis.call('ZRANGE', EXPIRES, 0, -1)
redis.call('UNLINK', CREATED, EXPIRES, TTL)
return sessions
