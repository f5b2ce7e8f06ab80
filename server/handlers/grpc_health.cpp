// SPDX-License-Identifier: Apache-2.0
#include "handlers/grpc_health.hpp"

#include <health.pb.h>

#include <string_view>

#include "rpc/services.hpp"

namespace bwos::server::handlers {
namespace {

/// Looks for a service among those of add_services().
struct service_finder {
  std::string_view wanted;
  bool found = false;

  template <class Handler>
  void unary(std::string_view path, Handler /*handler*/) noexcept {
    found |= rpc::service_of(path) == wanted;
  }
  template <class Handler>
  void server_stream(std::string_view path, Handler handler) noexcept {
    unary(path, handler);
  }
  template <class Handler>
  void client_stream(std::string_view path, Handler handler) noexcept {
    unary(path, handler);
  }
  template <class Handler>
  void both_streams(std::string_view path, Handler handler) noexcept {
    unary(path, handler);
  }
};

}  // namespace

task<rpc::status> check_health(rpc::context& call,
                               const grpc::health::v1::HealthCheckRequest& request,
                               grpc::health::v1::HealthCheckResponse& reply) {
  service_finder finder{.wanted = request.service()};
  rpc::add_services(finder, call.server);
  if (!request.service().empty() && !finder.found) {
    co_return rpc::status{rpc::code::not_found, ""};
  }
  using response = grpc::health::v1::HealthCheckResponse;
  reply.set_status(call.server.is_draining() ? response::NOT_SERVING : response::SERVING);
  co_return rpc::status{};
}

}  // namespace bwos::server::handlers
