if not exists() then
  return false
end
renew()
return redis.call('HMGET', META, 'state', 'version')
