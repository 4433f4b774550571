-- Its place in the list is confirmed. False where the session went meanwhile.
if redis.call('EXISTS', META) == 0 then
  return false
end
redis.call('HDEL', META, 'opening')
return session(renew())
