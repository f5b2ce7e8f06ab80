-- SPDX-License-Identifier: Apache-2.0
-- POST /echo with 128 bytes.
wrk.method = "POST"
wrk.body = string.rep("x", 128)
wrk.headers["Content-Type"] = "text/plain"
