-- ARGV: expected version, new state. Answers {1, new version}, or {0, current version} and nothing is changed.
if not exists() then
  return false
end
local current = tonumber(redis.call('HGET', META, 'version') or 0)
local answer = {0, current}
if current == tonumber(ARGV[1]) then
  redis.call('HSET', META, 'state', ARGV[2], 'version', current + 1)
  answer = {1, current + 1}
end
renew()
return answer
