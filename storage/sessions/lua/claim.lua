-- KEYS: one claim. ARGV: digest of the body, lease (ms)
-- Answers {'run'}, {'busy'}, {'other'}, or {'done', status, body}.
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
