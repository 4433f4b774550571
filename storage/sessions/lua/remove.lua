-- ARGV: turn id; '' for the last of the user's own turns and all that followed it
if not exists() then
  return false
end
local first, last
if ARGV[1] == '' then
  first, last = redis.call('ZREVRANGE', ASKED, 0, 0, 'WITHSCORES')[2], '+inf'
else
  first = redis.call('ZSCORE', ORDER, ARGV[1])
  last = first
end
if not first then
  renew()
  return 'absent'
end
local removed = cut(first, last)
renew()
return removed
