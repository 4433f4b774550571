-- ARGV: seq after which to begin, how many
if not exists() then
  return false
end
renew()
return with_bodies(redis.call('ZRANGEBYSCORE', ORDER, '(' .. ARGV[1], '+inf', 'WITHSCORES', 'LIMIT', 0, ARGV[2]))
