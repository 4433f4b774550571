return redis.call('ZRANGE', EXPIRES, 0, -1)
