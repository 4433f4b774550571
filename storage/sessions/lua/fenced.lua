-- KEYS: a tenant's fence
return redis.call('EXISTS', KEYS[1])
