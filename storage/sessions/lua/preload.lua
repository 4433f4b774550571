-- ARGV: memory ids, as JSON
if not exists() then
  return false
end
redis.call('HSET', META, 'preloaded', ARGV[1])
renew()
return 1
