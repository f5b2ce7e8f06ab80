// SPDX-License-Identifier: Apache-2.0
#include "grpc/health.hpp"

#include <health.pb.h>

#include <algorithm>

#include "app/services.hpp"
#include "base/drain_bell.hpp"
#include "grpc/call.hpp"
#include "grpc/exchange.hpp"

namespace bwos::server::native {
namespace {

using grpc::health::v1::HealthCheckRequest;
using grpc::health::v1::HealthCheckResponse;

bool is_known(const service& server, const std::string& name) {
  if (name.empty()) return true;
  const auto names = rpc::service_names(server);
  return std::find(names.begin(), names.end(), name) != names.end();
}

HealthCheckResponse::ServingStatus status_now(const service& server) noexcept {
  return server.is_draining() ? HealthCheckResponse::NOT_SERVING : HealthCheckResponse::SERVING;
}

void notify(void* messages) noexcept {
  static_cast<exchange*>(messages)->notify();
}

}  // namespace

task<rpc::status> check_health(rpc::context& call, const HealthCheckRequest& request,
                               HealthCheckResponse& reply) {
  if (!is_known(call.server, request.service())) co_return rpc::status{rpc::code::not_found, ""};
  reply.set_status(status_now(call.server));
  co_return rpc::status{};
}

task<rpc::status> watch_health(rpc::context& call, HealthCheckRequest& request,
                               rpc::writer<HealthCheckResponse>& replies) {
  exchange& messages = static_cast<native::call&>(call).messages();
  // Before the look: no drain falls between.
  const drain_bell::listener listens(call.server.bell, &notify, &messages);
  const bool known = is_known(call.server, request.service());
  HealthCheckRequest().Swap(&request);  // it is needed no more, and the watch lasts
  HealthCheckResponse reply;
  reply.set_status(known ? status_now(call.server) : HealthCheckResponse::SERVICE_UNKNOWN);
  bool wanted = co_await replies.write(reply);
  if (wanted && reply.status() != HealthCheckResponse::NOT_SERVING) {
    co_await messages.notice();
    reply.set_status(HealthCheckResponse::NOT_SERVING);
    wanted = co_await replies.write(reply);
  }
  if (wanted) co_await messages.end_of_call();
  co_return rpc::status{rpc::code::cancelled, ""};
}

}  // namespace bwos::server::native
