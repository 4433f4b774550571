-- ARGV: user, created (us), ttl (s), time_zone, language, metadata ('' for none)
local owner = redis.call('GET', OWNER)
if owner and owner ~= ARGV[1] then
  return 'taken'
end
if not exists() then
  redis.call('SET', OWNER, ARGV[1])
  redis.call('HSET', META, 'created', ARGV[2], 'ttl', ARGV[3], 'next', 0,
    'time_zone', ARGV[4], 'language', ARGV[5], 'metadata', ARGV[6])
end
return session(renew())
