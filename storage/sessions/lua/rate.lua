-- A sliding window of a minute from two counters: of the minute that runs, and of the one before, which counts by the share of it that
-- the last sixty seconds still cover. No burst of twice the rate where two minutes meet, and one key whatever the rate.
-- KEYS: the tenant's counters.  ARGV: requests per minute, what this one counts for
-- Returns 0 where it was counted, else the milliseconds after which it could be; then nothing is counted.
local MINUTE = 60000
local limit, cost = tonumber(ARGV[1]), tonumber(ARGV[2])
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
local held = redis.call('HMGET', KEYS[1], 'since', 'running', 'before')
local since, running, before = tonumber(held[1]) or now, tonumber(held[2]) or 0, tonumber(held[3]) or 0
if now - since >= 2 * MINUTE then
  since, running, before = now, 0, 0
elseif now - since >= MINUTE then
  since, running, before = since + MINUTE, 0, running
end
local passed = math.max(now - since, 0)

if math.floor(before * (MINUTE - passed) / MINUTE) + running + cost <= limit then
  redis.call('HSET', KEYS[1], 'since', string.format('%.0f', since), 'running', running + cost, 'before', before)
  redis.call('PEXPIRE', KEYS[1], 2 * MINUTE)
  return 0
end
-- After how long does what is left of a minute's `counted` requests leave `room` for others?
local function faded(counted, room)
  return math.max(math.floor(MINUTE * (1 - (room + 1) / counted)) + 1, 0)
end
if running + cost <= limit then
  return math.max(faded(before, limit - running - cost) - passed, 1)
end
return MINUTE - passed + faded(running, limit - cost)
