// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "grpc/calls.hpp"
#include "grpc/transport.hpp"
#include "http/h2/connection.hpp"
#include "net/runtime.hpp"

namespace bwos::server::rpc {

/// gRPC on sockets of the runtime: methods, and the health service for them.
class native_server final : public grpc_transport {
 public:
  /// Listens and serves. `address`: as runtime::listen(); empty where the HTTP port's connections
  /// are all there are. Everything must outlive it, and the threads of the runtime must have been
  /// joined before it goes. Throws std::system_error, std::invalid_argument.
  native_server(runtime& where, const std::string& address, int backlog,
                std::size_t connections_max, method_table methods, const drain_state& drain,
                metrics::registry& metrics, const h2::limits& http2, const call_limits& calls,
                memory_budget& memory);
  /// Of a socket that is bound already; null: without one of its own.
  native_server(runtime& where, std::unique_ptr<port> bound, std::size_t connections_max,
                method_table methods, const drain_state& drain, metrics::registry& metrics,
                const h2::limits& http2, const call_limits& calls, memory_budget& memory,
                access_log* log = nullptr, const queue_age_bound* queue_age = nullptr);
  ~native_server() override;

  /// Not without one of its own.
  [[nodiscard]] std::string address() const override;
  /// For the connections of other ports.
  [[nodiscard]] const served_methods& served() const noexcept { return served_; }
  void begin_drain() noexcept override {}  // the health service goes by drain_state
  void shutdown(std::chrono::steady_clock::time_point deadline) override;
  [[nodiscard]] std::optional<std::size_t> connections() const noexcept override {
    return listener_ ? listener_->connections() : 0;
  }
  [[nodiscard]] std::optional<std::size_t> refused() const noexcept override {
    return listener_ ? listener_->refused() : 0;
  }
  void end_idle_connections() noexcept override {
    if (listener_) listener_->end_idle_connections();
  }
  [[nodiscard]] std::size_t made_room() const noexcept override {
    return listener_ ? listener_->made_room() : 0;
  }
  [[nodiscard]] grpc_statistics statistics() const noexcept override;

 private:
  method_table methods_;
  std::atomic<bool> leaving_{false};
  const metrics::registry& counters_;
  const served_methods served_;
  const h2::common common_;
  const h2::factory factory_;
  std::unique_ptr<port> listener_;
};

}  // namespace bwos::server::rpc
