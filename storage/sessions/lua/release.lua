-- KEYS: one claim. ARGV: digest
local held = redis.call('HMGET', KEYS[1], 'digest', 'status')
if held[1] == ARGV[1] and not held[2] then
  return redis.call('DEL', KEYS[1])
end
return 0
