-- KEYS: the owner's key alone
return redis.call('GET', KEYS[1])
