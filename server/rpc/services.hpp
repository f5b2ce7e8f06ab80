// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "handlers/burn.hpp"
#include "handlers/hello.hpp"
#include "handlers/test_service.hpp"

namespace bwos::server::rpc {

/// Every method, for either transport. To add one: its contract in proto/, a coroutine in
/// handlers/, a line here. `of`: as it is when a server starts.
template <class Transport>
void add_services(Transport& to, const service& of) {
  to.unary("/helloworld.Greeter/SayHello", &handlers::say_hello);
  to.unary("/bwos.Work/Burn", &handlers::burn);
  if (!of.has_test_service) return;
  to.unary("/grpc.testing.TestService/EmptyCall", &handlers::empty_call);
  to.unary("/grpc.testing.TestService/UnaryCall", &handlers::unary_call);
  to.server_stream("/grpc.testing.TestService/StreamingOutputCall",
                   &handlers::streaming_output_call);
  to.client_stream("/grpc.testing.TestService/StreamingInputCall", &handlers::streaming_input_call);
  to.both_streams("/grpc.testing.TestService/FullDuplexCall", &handlers::full_duplex_call);
  to.both_streams("/grpc.testing.TestService/HalfDuplexCall", &handlers::half_duplex_call);
}

/// "helloworld.Greeter" of "/helloworld.Greeter/SayHello".
constexpr std::string_view service_of(std::string_view path) noexcept {
  return path.substr(1, path.rfind('/') - 1);
}

}  // namespace bwos::server::rpc
