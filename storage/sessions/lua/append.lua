-- ARGV: max turns, then for each turn: id, '1' for the user's own, body
-- Answers for each turn its seq, or {seq, body} of the one that is there already.
if not exists() then
  return false
end
local fresh, known = 0, {}
for i = 2, #ARGV, 3 do
  local id = ARGV[i]
  if not known[id] and redis.call('HEXISTS', TURNS, id) == 0 then
    fresh = fresh + 1
  end
  known[id] = true
end
if fresh > 0 and redis.call('ZCARD', ORDER) + fresh > tonumber(ARGV[1]) then
  renew()
  return 'full'
end
local seq = tonumber(redis.call('HGET', META, 'next'))
local answers = {}
for i = 2, #ARGV, 3 do
  local id, asked, body = ARGV[i], ARGV[i + 1], ARGV[i + 2]
  local place = redis.call('ZSCORE', ORDER, id)
  if place then
    answers[#answers + 1] = {tonumber(place), redis.call('HGET', TURNS, id)}
  else
    seq = seq + 1
    redis.call('ZADD', ORDER, seq, id)
    redis.call('HSET', TURNS, id, body)
    if asked == '1' then
      redis.call('ZADD', ASKED, seq, id)
    end
    answers[#answers + 1] = seq
  end
end
redis.call('HSET', META, 'next', string.format('%.0f', seq))
renew()
return answers
