// SPDX-License-Identifier: Apache-2.0
// The threads of a server, and the sockets that they serve.
#pragma once

#include <bwos/pool.hpp>
#include <bwos/statistics.hpp>
#include <bwos/stream.hpp>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "net/executor.hpp"
#include "net/port.hpp"

namespace bwos::server {

/// What runs, for the log and /metrics.
struct runtime_facts {
  std::string_view executor;  ///< As --executor has it.
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
  [[nodiscard]] virtual std::unique_ptr<port> listen(const std::string& address, int backlog) = 0;
  /// The same for one that the process was started with. Throws std::system_error.
  [[nodiscard]] virtual std::unique_ptr<port> listen(inherited_socket socket) = 0;
  [[nodiscard]] virtual runtime_facts facts() const = 0;
  /// Where our pool is what runs; else null.
  [[nodiscard]] virtual const pool* workers_of_ours() const noexcept { return nullptr; }
  /// The threads end after what they are running; returns when they have. Not from one of them.
  virtual void stop() = 0;
};

/// Starts a pool of ours. Throws std::system_error.
[[nodiscard]] std::unique_ptr<runtime> make_pool_runtime(const options& settings);

}  // namespace bwos::server
