-- ARGV: user, created (us), ttl (s), time_zone, language, metadata ('' for none), how long a new one has to be confirmed (ms)
-- A new session is not there for anybody until `opened`; whoever dies before that leaves nothing for long.
-- Answers 'taken', or {'new' or 'known', session}.
local owner = redis.call('GET', OWNER)
if owner and owner ~= ARGV[1] then
  return 'taken'
end
if exists() then
  return {'known', session(renew())}
end
if redis.call('EXISTS', META) == 0 then
  redis.call('SET', OWNER, ARGV[1])
  redis.call('HSET', META, 'created', ARGV[2], 'ttl', ARGV[3], 'next', 0,
    'time_zone', ARGV[4], 'language', ARGV[5], 'metadata', ARGV[6], 'opening', 1)
end
return {'new', session(live_for(tonumber(ARGV[7])))}
