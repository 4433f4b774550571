-- ARGV: sessions
for _, session in ipairs(ARGV) do
  take(session)
end
return 1
