// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bwos/task.hpp>

#include "grpc/handlers.hpp"

namespace helloworld {
class HelloRequest;
class HelloReply;
}  // namespace helloworld

namespace bwos::server::handlers {

/// SayHello: "Hello " and the name.
task<rpc::status> say_hello(rpc::context& call, const helloworld::HelloRequest& request,
                            helloworld::HelloReply& reply);

}  // namespace bwos::server::handlers
