// SPDX-License-Identifier: Apache-2.0
#include "grpc/native_server.hpp"

#include <google/protobuf/stubs/logging.h>

#include <cstddef>
#include <thread>
#include <utility>

#include "grpc/health.hpp"
#include "net/limits.hpp"

namespace bwos::server::rpc {
namespace {

method_table with_health(method_table methods, const drain_state& drain) {
  // protobuf writes a line for each request that is not UTF-8. Its sender gets an answer instead.
  google::protobuf::SetLogHandler(nullptr);
  add_health(methods, drain);
  return methods;
}

}  // namespace

native_server::native_server(runtime& where, const std::string& address, int backlog,
                             std::size_t connections_max, method_table methods,
                             const drain_state& drain, metrics::registry& metrics,
                             const h2::limits& http2, const call_limits& calls,
                             memory_budget& memory)
    : native_server(where, address.empty() ? nullptr : where.listen(address, backlog),
                    connections_max, std::move(methods), drain, metrics, http2, calls, memory) {}

native_server::native_server(runtime& where, std::unique_ptr<port> bound,
                             std::size_t connections_max, method_table methods,
                             const drain_state& drain, metrics::registry& metrics,
                             const h2::limits& http2, const call_limits& calls,
                             memory_budget& memory, access_log* log,
                             const queue_age_bound* queue_age)
    : methods_(with_health(std::move(methods), drain)),
      counters_(metrics),
      served_(methods_, calls, queue_age),
      common_{.workers = where.workers(),
              .drain = drain,
              .metrics = metrics,
              .bounds = http2,
              .leaving = leaving_,
              .memory = memory,
              .calls = &served_,
              .log = log},
      factory_(common_),
      listener_(std::move(bound)) {
  if (listener_) listener_->start(factory_, connections_max);
}

native_server::~native_server() = default;

std::string native_server::address() const {
  return listener_->address();
}

void native_server::shutdown(std::chrono::steady_clock::time_point deadline) {
  // [native.leave] relaxed: the interruptions below order it before what they end. Partner:
  // [endpoint.leaving].
  leaving_.store(true, std::memory_order_relaxed);
  if (!listener_) return;
  listener_->close();
  bool all_know = false;
  // Ends: at the deadline what is left is the runtime's to cut off.
  while (!(listener_->closed() && listener_->connections() == 0) &&
         std::chrono::steady_clock::now() < deadline) {
    if (!all_know) {
      all_know = listener_->closed();  // nobody is accepted any more
      listener_->interrupt_connections();
    }
    std::this_thread::sleep_for(drain_step);
  }
}

grpc_statistics native_server::statistics() const noexcept {
  const auto now = counters_.grpc_total();
  const auto of = [&](metrics::grpc what) { return now[static_cast<std::size_t>(what)]; };
  return {of(metrics::grpc::started), of(metrics::grpc::ok), of(metrics::grpc::failed),
          of(metrics::grpc::cancelled), of(metrics::grpc::unserved)};
}

}  // namespace bwos::server::rpc
