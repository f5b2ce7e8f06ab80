-- SPDX-License-Identifier: Apache-2.0
-- As many requests in one write as its argument says; wrk sends the next ones when all are answered:
-- wrk -s pipeline.lua URL -- 16
local batch

init = function(args)
  batch = string.rep(wrk.format("GET"), tonumber(args[1]))
end

request = function()
  return batch
end
