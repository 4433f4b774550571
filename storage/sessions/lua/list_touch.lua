-- ARGV: session
local ttl = redis.call('HGET', TTL, ARGV[1])
if ttl then
  put(ARGV[1], tonumber(ttl))
  keep()
end
return 1
