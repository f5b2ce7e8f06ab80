// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "app/services/burn.hpp"
#include "app/services/hello.hpp"
#include "app/services/test_service.hpp"
#include "grpc/method_options.hpp"
#include "grpc/paths.hpp"
#include "grpc/reflection.hpp"

namespace bwos::server::rpc {

/// Every method, for either transport. To add one: its contract in proto/, a coroutine in
/// handlers/, a line here. `of`: as it is when a server starts.
template <class Transport>
void add_services(Transport& to, const service& of) {
  to.unary("/helloworld.Greeter/SayHello", &handlers::say_hello);
  to.unary("/bwos.Work/Burn", &handlers::burn);
  constexpr method_options names{.request_bytes_max = name_request_bytes_max,
                                 .calls_max = waiting_calls_max};
  to.both_streams("/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", &handlers::reflect,
                  names);
  to.both_streams("/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
                  &handlers::reflect, names);
  if (!of.has_test_service) return;
  to.unary("/grpc.testing.TestService/EmptyCall", &handlers::empty_call);
  to.unary("/grpc.testing.TestService/UnaryCall", &handlers::unary_call);
  to.server_stream("/grpc.testing.TestService/StreamingOutputCall",
                   &handlers::streaming_output_call);
  to.client_stream("/grpc.testing.TestService/StreamingInputCall", &handlers::streaming_input_call);
  to.both_streams("/grpc.testing.TestService/FullDuplexCall", &handlers::full_duplex_call);
  to.both_streams("/grpc.testing.TestService/HalfDuplexCall", &handlers::half_duplex_call);
}

namespace detail {

struct name_collector {
  std::vector<std::string_view> names;

  template <class Handler>
  void unary(std::string_view path, Handler /*handler*/) {
    const std::string_view name = service_of(path);
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  }
  template <class Handler>
  void server_stream(std::string_view path, Handler handler) {
    unary(path, handler);
  }
  template <class Handler>
  void client_stream(std::string_view path, Handler handler) {
    unary(path, handler);
  }
  template <class Handler>
  void both_streams(std::string_view path, Handler handler,
                    const method_options& /*options*/ = {}) {
    unary(path, handler);
  }
};

}  // namespace detail

/// The services of add_services(), each once.
inline std::vector<std::string_view> service_names(const service& of) {
  detail::name_collector found;
  add_services(found, of);
  return std::move(found.names);
}

}  // namespace bwos::server::rpc
