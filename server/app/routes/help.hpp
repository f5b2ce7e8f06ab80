// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "http/message.hpp"

namespace bwos::server::handlers {

/// `has_work`: /work is on.
inline response help(bool has_work, std::string& scratch) {
  scratch =
      "bwos-server\n"
      "GET  /plaintext   Hello, World!\n"
      "POST /echo        the body, with its content type\n";
  if (has_work) scratch += "GET  /work?us=N   N microseconds of CPU time\n";
  scratch +=
      "GET  /healthz     200, 503 while a worker is stuck in a task\n"
      "GET  /readyz      200, 503 once it drains\n"
      "GET  /metrics     Prometheus text\n"
      "gRPC helloworld.Greeter/SayHello on its own port; native, with --grpc native, on this one "
      "too\n";
  return {.code = status::ok, .content_type = plain_text, .body = scratch};
}

}  // namespace bwos::server::handlers
