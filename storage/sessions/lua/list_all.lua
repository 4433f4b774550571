return redis.call('ZRANGE', CREATED, 0, -1)
