// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/access_log.hpp"
#include "base/counters.hpp"
#include "base/drain.hpp"
#include "base/start_error.hpp"
#include "grpc/methods.hpp"
#include "grpc/transport.hpp"
#include "http/h1/connection.hpp"
#include "http/h2/endpoint.hpp"
#include "http/router.hpp"
#include "net/address_limit.hpp"
#include "net/memory_budget.hpp"
#include "net/queue_age.hpp"
#include "net/runtime.hpp"
#include "ops/inherited_sockets.hpp"
#include "ops/memory_return.hpp"
#include "ops/service_manager.hpp"
#include "ops/settings.hpp"
#include "ops/stall_watch.hpp"

namespace bwos::server {

/// SIGTERM and SIGINT, and SIGHUP where that is wanted, taken one by one by whoever asks. Blocks
/// them in the thread that makes it and in those that it starts afterwards: make it before any
/// other thread.
class termination_signals {
 public:
  explicit termination_signals(bool with_hangup = false);
  /// Whether one came within `patience`: its number.
  std::optional<int> wait_for(std::chrono::milliseconds patience) const noexcept;

 private:
  sigset_t set_;
};

/// What a server is made of, beside its settings.
struct server_parts {
  std::unique_ptr<runtime> threads;
  std::vector<route> routes;  ///< Beside the operational ones.
  rpc::method_table methods;  ///< Beside the health service's.
  /// Set: gRPC is served by what this makes, when it is to listen, and not natively. Throws
  /// std::system_error, std::invalid_argument.
  std::function<std::unique_ptr<grpc_transport>(executor& workers)> other_grpc;
  std::string version;
};

/// Everything that runs, in the order in which it is started.
///
/// Start: the executor runs, sockets are bound, gRPC is served, HTTP accepted. Nothing is accepted
/// before all of it is there.
///
/// Drain:
///
/// 1. /readyz says 503, the health service NOT_SERVING, and every connection ends with its present
///    request. New ones are accepted for --drain-delay yet.
///
/// 2. Listeners accept what their backlog holds, and close. Inherited ones close at once and leave
///    the backlog to whoever else has them.
///
/// 3. Connections without a request end after --drain-idle. Calls of gRPC finish.
///
/// 4. At the end of --drain-timeout what is left is dropped, once the handlers that compute are
///    done.
class server {
 public:
  /// Listens, on what was `given` in place of the addresses of its flags. `manager` hears of the
  /// steps, and that all is well. Throws start_error.
  server(const server_settings& settings, server_parts parts, service_manager manager = {},
         inherited_sockets given = {});
  server(const server&) = delete;
  server& operator=(const server&) = delete;

  /// "listening http=127.0.0.1:8080 grpc=127.0.0.1:50051", without what does not listen.
  [[nodiscard]] std::string addresses() const;

  /// Until the first signal. Looks after the workers meanwhile, and tells the manager that it is
  /// ready.
  void wait(const termination_signals& signals);

  /// Steps 1 to 4. A signal that comes meanwhile ends the process at once, but for what the access
  /// log holds.
  void drain(const termination_signals& signals);

 private:
  [[nodiscard]] std::unique_ptr<port> listen(const std::optional<inherited_socket>& given,
                                             const std::string& address);
  void bind_http();
  void start_grpc();
  void start_http();
  [[nodiscard]] bool has_native_grpc() const noexcept { return !parts_.other_grpc; }
  [[nodiscard]] bool is_one_address() const;
  [[nodiscard]] bool has_http_port() const;
  [[nodiscard]] bool has_grpc_port() const;
  [[nodiscard]] std::size_t ports() const;
  void log_start() const;
  [[nodiscard]] std::vector<route> all_routes();
  void write_metrics(std::string& to) const;
  std::optional<int> signal_within(const termination_signals& signals,
                                   std::chrono::milliseconds patience);
  std::optional<int> signal_before(const termination_signals& signals,
                                   std::chrono::steady_clock::time_point end);
  void serve_unready(const termination_signals& signals);
  [[noreturn]] void end_at_once(int signal);
  void look_after();
  [[nodiscard]] bool http_has_ended() const noexcept;

  /// Goes first, also where the constructor or drain() throws: ends gRPC's calls, which need the
  /// workers, and then the workers, whose connections refer to nearly everything here.
  struct last_stop {
    server& all;
    ~last_stop();
  };

  const server_settings settings_;
  server_parts parts_;
  const inherited_sockets given_;
  drain_state drain_;
  const router routes_;
  metrics::registry metrics_;
  memory_budget budget_;
  route_times times_;
  std::atomic<bool> http_leaves_{false};  // the HTTP port: --drain-delay is over
  std::optional<access_log> log_;
  std::optional<address_limit> addresses_;
  std::optional<h2::common> http2_context_;  // connections refer to both until the runtime ends
  std::optional<h1::common> http_context_;
  std::optional<h1::factory> http_connections_;
  const std::unique_ptr<runtime> runtime_;
  const queue_age_bound queue_age_;
  stall_watch stalls_;
  memory_return memory_;
  service_manager manager_;
  std::unique_ptr<port> http_;
  std::unique_ptr<grpc_transport> grpc_;
  const last_stop last_stop_{*this};
};

/// Lets the process open as many descriptors as the system allows it. Returns how many.
std::size_t raise_descriptor_limit() noexcept;

}  // namespace bwos::server
