-- SPDX-License-Identifier: Apache-2.0
-- 16 requests in one write; wrk sends the next 16 when all are answered.
local batch

init = function(args)
  local one = wrk.format("GET")
  batch = string.rep(one, 16)
end

request = function()
  return batch
end
