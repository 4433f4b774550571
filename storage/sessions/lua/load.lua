-- ARGV: how many of the newest turns. Ids, seqs and bodies come as one text each: a reply of a thousand parts takes its reader longer
-- than all the rest of the call.
if not exists() then
  return false
end
local newest = tonumber(ARGV[1])
local ids, seqs, bodies = {}, {}, {}
if newest > 0 then
  local turns = with_bodies(redis.call('ZREVRANGE', ORDER, 0, newest - 1, 'WITHSCORES'))
  for i = 1, #turns[1], 2 do
    ids[#ids + 1] = turns[1][i]
    seqs[#seqs + 1] = turns[1][i + 1]
    bodies[#bodies + 1] = turns[2][(i + 1) / 2] or 'null'
  end
end
local rest = redis.call('HMGET', META, 'state', 'version', 'preloaded')
local turns = {table.concat(ids, ' '), table.concat(seqs, ' '), '[' .. table.concat(bodies, ',') .. ']'}
return {session(renew()), turns, rest}
