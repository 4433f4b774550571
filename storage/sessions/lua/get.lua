if not exists() then
  return false
end
return session(renew())
