// SPDX-License-Identifier: Apache-2.0
// What --executor chooses: the threads, and the sockets that they serve.
#pragma once

#include <bwos/pool.hpp>
#include <bwos/statistics.hpp>
#include <bwos/stream.hpp>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "app/config.hpp"
#include "http/h1/connection.hpp"
#include "net/executor.hpp"

namespace bwos::server::native {
struct shared;
}

namespace bwos::server {

/// A bound socket and its connections. Any thread, but for start().
class http_listener {
 public:
  virtual ~http_listener() = default;

  /// As bound.
  [[nodiscard]] virtual std::string address() const = 0;
  /// Accepts, once; those above `connections_max` get 503, at most refusals_max at once. `shared`
  /// must outlive the runtime.
  virtual void start(const http1::context& shared, std::size_t connections_max) = 0;
  /// The same for native gRPC; those above are closed. Not every runtime's: throws
  /// std::logic_error, which config.cpp prevents.
  virtual void start_grpc(const native::shared& shared, std::size_t connections_max);
  /// Takes no new connections, accepts what the backlog holds once more, then closes the socket. An
  /// inherited one is left to those who have it, too. Returns at once.
  virtual void close() noexcept = 0;
  [[nodiscard]] virtual bool closed() const noexcept = 0;
  /// Ends each connection's pending receive, or else its next one, with operation_canceled.
  virtual void interrupt_connections() noexcept = 0;

  [[nodiscard]] virtual std::size_t connections() const noexcept = 0;  ///< Open now.
  [[nodiscard]] virtual std::size_t accepted() const noexcept = 0;
  [[nodiscard]] virtual std::size_t refused() const noexcept = 0;
  /// Ever: idle ones that were ended for others, where it does so.
  [[nodiscard]] virtual std::size_t made_room() const noexcept { return 0; }
};

/// What runs, for the log and /metrics.
struct runtime_facts {
  executor_kind kind = executor_kind::bwos;
  reactor_choice reactor;
  std::optional<std::uint64_t> asio_lane_run{};  ///< Requests that --asio-lane has taken.
};

class runtime {
 public:
  runtime() = default;
  runtime(const runtime&) = delete;
  runtime& operator=(const runtime&) = delete;
  /// After stop(): frees what was cut off, connections that are open yet included.
  virtual ~runtime() = default;

  [[nodiscard]] virtual executor& workers() noexcept = 0;
  /// Throws std::system_error, std::invalid_argument. The runtime must outlive it.
  [[nodiscard]] virtual std::unique_ptr<http_listener> listen(const std::string& address,
                                                              int backlog) = 0;
  /// The same for one that the process was started with. Throws std::system_error.
  [[nodiscard]] virtual std::unique_ptr<http_listener> listen(inherited_socket socket) = 0;
  [[nodiscard]] virtual runtime_facts facts() const = 0;
  /// Where our pool is what runs; else null.
  [[nodiscard]] virtual const pool* workers_of_ours() const noexcept { return nullptr; }
  /// The threads end after what they are running; returns when they have. Not from one of them.
  virtual void stop() = 0;
};

/// Starts the threads. Throws std::system_error.
std::unique_ptr<runtime> make_runtime(const config& settings);

/// "bwos", as the flag has it.
[[nodiscard]] std::string_view name_of(executor_kind kind) noexcept;

}  // namespace bwos::server
