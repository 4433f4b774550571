-- ARGV: created (us) and id of the last session of the page before ('' for the first page), how many
-- Newest first; of two made at the same time the greater id first. Answers id, created, id, created, ...
sweep()
local before, last, wanted = ARGV[1], ARGV[2], tonumber(ARGV[3])
local start = 0
if before ~= '' then
  start = redis.call('ZCOUNT', CREATED, '(' .. before, '+inf')
end
local page = {}
while #page < 2 * wanted do
  local found = redis.call('ZREVRANGE', CREATED, start, start + wanted, 'WITHSCORES')
  if #found == 0 then
    break
  end
  for i = 1, #found, 2 do
    local behind = before == '' or tonumber(found[i + 1]) < tonumber(before) or found[i] < last
    if behind and #page < 2 * wanted then
      page[#page + 1] = found[i]
      page[#page + 1] = found[i + 1]
    end
  end
  start = start + #found / 2
end
return page
