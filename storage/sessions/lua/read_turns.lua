-- ARGV: turn ids. For workers: their look is no use of the session, so nothing is renewed.
if not exists() then
  return false
end
local found = {}
for _, id in ipairs(ARGV) do
  local seq = redis.call('ZSCORE', ORDER, id)
  if seq then
    found[#found + 1] = id
    found[#found + 1] = seq
  end
end
return with_bodies(found)
