-- ARGV: turn id, '1' for the user's own, body. The turn keeps its id and seq; what followed it goes with the old wording.
if not exists() then
  return false
end
local seq = redis.call('ZSCORE', ORDER, ARGV[1])
if not seq then
  renew()
  return 'absent'
end
local removed = cut(seq, '+inf')
redis.call('ZADD', ORDER, seq, ARGV[1])
redis.call('HSET', TURNS, ARGV[1], ARGV[3])
if ARGV[2] == '1' then
  redis.call('ZADD', ASKED, seq, ARGV[1])
end
renew()
return removed
