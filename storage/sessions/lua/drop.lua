if not exists() then
  return 0
end
redis.call('UNLINK', unpack(KEYS))
return 1
