// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "message.hpp"

namespace bwos::server::handlers {

inline response help() noexcept {
  return {.code = status::ok,
          .content_type = plain_text,
          .body =
              "bwos-server\n"
              "GET  /plaintext   Hello, World!\n"
              "POST /echo        the body, with its content type\n"
              "GET  /work?us=N   N microseconds of CPU time\n"
              "GET  /healthz     200, 503 while a worker is stuck in a task\n"
              "GET  /readyz      200, 503 once it drains\n"
              "GET  /metrics     Prometheus text\n"
              "gRPC helloworld.Greeter/SayHello on its own port; native, with --grpc native, on "
              "this one too\n"};
}

}  // namespace bwos::server::handlers
