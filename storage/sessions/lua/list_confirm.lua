-- ARGV: session, created (us), ttl (s), as the session has them. 0 where the place was taken away meanwhile (an erasure).
if not listed(ARGV[1]) or redis.call('EXISTS', FENCE) == 1 then
  return 0
end
redis.call('ZADD', CREATED, ARGV[2], ARGV[1])
put(ARGV[1], tonumber(ARGV[3]))
keep()
return 1
