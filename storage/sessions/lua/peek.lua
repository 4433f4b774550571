-- For listings: looking at a list is no use of the session, so nothing is renewed.
if not exists() then
  return false
end
local at = redis.call('PEXPIRETIME', META)
return session(string.format('%.0f', at))
