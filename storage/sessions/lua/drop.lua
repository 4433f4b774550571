-- Also one that is just being opened.
if redis.call('EXISTS', META) == 0 then
  return 0
end
redis.call('UNLINK', unpack(KEYS))
return 1
