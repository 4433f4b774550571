-- KEYS: one claim, its user's fence. ARGV: digest, status, body, how long to keep it (ms)
-- The first answer stays; a claim that meanwhile is another body's is left alone. Of a user who is being erased no answer is kept.
if redis.call('EXISTS', KEYS[2]) == 1 then
  redis.call('UNLINK', KEYS[1])
  return 0
end
local held = redis.call('HMGET', KEYS[1], 'digest', 'status')
if held[2] or (held[1] and held[1] ~= ARGV[1]) then
  return 0
end
redis.call('HSET', KEYS[1], 'digest', ARGV[1], 'status', ARGV[2], 'body', ARGV[3])
redis.call('PEXPIRE', KEYS[1], ARGV[4])
return 1
