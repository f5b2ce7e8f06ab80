// SPDX-License-Identifier: Apache-2.0
#include "grpc/health.hpp"

#include <health.pb.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "grpc/call.hpp"
#include "grpc/message_pipe.hpp"

namespace bwos::server::rpc {
namespace {

using grpc::health::v1::HealthCheckRequest;
using grpc::health::v1::HealthCheckResponse;

struct health {
  const drain_state& drain;
  const std::vector<std::string> services;

  [[nodiscard]] bool knows(const std::string& name) const {
    return name.empty() || std::ranges::find(services, name) != services.end();
  }
  [[nodiscard]] HealthCheckResponse::ServingStatus status() const noexcept {
    return drain.is_draining() ? HealthCheckResponse::NOT_SERVING : HealthCheckResponse::SERVING;
  }
};

void notify(void* messages) noexcept {
  static_cast<message_pipe*>(messages)->notify();
}

task<rpc::status> check(const health& of, const HealthCheckRequest& request,
                        HealthCheckResponse& reply) {
  if (!of.knows(request.service())) co_return rpc::status{rpc::code::not_found, ""};
  reply.set_status(of.status());
  co_return rpc::status{};
}

task<rpc::status> watch(const health& of, rpc::context& call, HealthCheckRequest& request,
                        rpc::writer<HealthCheckResponse>& replies) {
  message_pipe& messages = static_cast<rpc::call&>(call).messages();
  // Before the look: no drain falls between.
  const drain_bell::listener listens(of.drain.bell(), &notify, &messages);
  const bool known = of.knows(request.service());
  HealthCheckRequest().Swap(&request);  // it is needed no more, and the watch lasts
  HealthCheckResponse reply;
  reply.set_status(known ? of.status() : HealthCheckResponse::SERVICE_UNKNOWN);
  bool wanted = co_await replies.write(reply);
  if (wanted && reply.status() != HealthCheckResponse::NOT_SERVING) {
    co_await messages.notice();
    reply.set_status(HealthCheckResponse::NOT_SERVING);
    wanted = co_await replies.write(reply);
  }
  if (wanted) co_await messages.end_of_call();
  co_return rpc::status{rpc::code::cancelled, ""};
}

}  // namespace

void add_health(method_table& to, const drain_state& drain) {
  const auto of = std::make_shared<const health>(health{drain, to.services()});
  rpc::method_options bounds{.request_bytes_max = rpc::name_request_bytes_max, .vital = true};
  to.unary("/grpc.health.v1.Health/Check",
           rpc::unary_handler<HealthCheckRequest, HealthCheckResponse>(
               [of](rpc::context&, const HealthCheckRequest& request, HealthCheckResponse& reply) {
                 return check(*of, request, reply);
               }),
           bounds);
  bounds.calls_max = rpc::waiting_calls_max;
  to.server_stream("/grpc.health.v1.Health/Watch",
                   rpc::server_stream_handler<HealthCheckRequest, HealthCheckResponse>(
                       [of](rpc::context& call, HealthCheckRequest& request,
                            rpc::writer<HealthCheckResponse>& replies) {
                         return watch(*of, call, request, replies);
                       }),
                   bounds);
}

}  // namespace bwos::server::rpc
