// SPDX-License-Identifier: Apache-2.0
#include "app/services/hello.hpp"

#include <helloworld.pb.h>

#include <string_view>

namespace bwos::server::handlers {

task<rpc::status> say_hello(rpc::context& /*call*/, const helloworld::HelloRequest& request,
                            helloworld::HelloReply& reply) {
  constexpr std::string_view greeting = "Hello ";
  std::string& message = *reply.mutable_message();
  message.reserve(greeting.size() + request.name().size());
  message.append(greeting).append(request.name());
  co_return rpc::status{};
}

}  // namespace bwos::server::handlers
