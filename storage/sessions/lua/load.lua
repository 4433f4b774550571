-- ARGV: how many of the newest turns
if not exists() then
  return false
end
local newest = tonumber(ARGV[1])
local turns = {{}, {}}
if newest > 0 then
  turns = with_bodies(redis.call('ZREVRANGE', ORDER, 0, newest - 1, 'WITHSCORES'))
end
local rest = redis.call('HMGET', META, 'state', 'version', 'preloaded')
return {session(renew()), turns, rest}
