-- KEYS: one claim, its user's fence. ARGV: digest of the body, lease (ms)
-- Answers {'run'}, {'busy'}, {'other'}, or {'done', status, body}.
if redis.call('EXISTS', KEYS[2]) == 1 then -- the user is being erased: the work is refused elsewhere, and nothing of it is kept
  return {'run'}
end
local held = redis.call('HMGET', KEYS[1], 'digest', 'status', 'body')
if not held[1] then
  redis.call('HSET', KEYS[1], 'digest', ARGV[1])
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
  return {'run'}
end
if held[1] ~= ARGV[1] then
  return {'other'}
end
if not held[2] then
  return {'busy'}
end
return {'done', held[2], held[3]}
