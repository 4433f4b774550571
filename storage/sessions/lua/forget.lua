-- KEYS: what goes, of one slot
return redis.call('UNLINK', unpack(KEYS))
