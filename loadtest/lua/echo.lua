-- SPDX-License-Identifier: Apache-2.0
-- POST /echo with as many bytes as its argument says: wrk -s echo.lua URL -- 1024
wrk.method = "POST"
wrk.headers["Content-Type"] = "text/plain"

init = function(args)
  wrk.body = string.rep("x", tonumber(args[1]))
end
