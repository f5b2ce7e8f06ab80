// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

namespace bwos::server {

/// Calls since the start. Every started call ends as exactly one of the next three.
struct grpc_statistics {
  std::uint64_t started = 0;  ///< Calls that reached the server's coroutines.
  std::uint64_t ok = 0;       ///< Answered with status OK.
  std::uint64_t failed = 0;   ///< Answered with another status, by the handler or because it threw.
  /// Ended by the caller, its deadline, a lost connection or the stop's deadline.
  std::uint64_t cancelled = 0;
  /// Of those cancelled: over before a worker came to them; no handler was run.
  std::uint64_t unserved = 0;
};

/// A running gRPC server, whichever of --grpc it is. Its constructor listens and serves.
class grpc_transport {
 public:
  grpc_transport() = default;
  grpc_transport(const grpc_transport&) = delete;
  grpc_transport& operator=(const grpc_transport&) = delete;
  virtual ~grpc_transport() = default;

  /// HOST:PORT as bound.
  [[nodiscard]] virtual std::string address() const = 0;

  /// Any thread: the health service says NOT_SERVING from now on; calls are served as before.
  virtual void begin_drain() noexcept = 0;

  /// Stops listening, lets the calls in flight finish until `deadline`, and returns when they have,
  /// or it has passed. Not from a thread of the executor, and not by two threads at once.
  virtual void shutdown(std::chrono::steady_clock::time_point deadline) = 0;

  /// Open now, where it is known. Any thread.
  [[nodiscard]] virtual std::optional<std::size_t> connections() const noexcept { return {}; }
  /// Ever, by --connections-max or for lack of memory, where it is known. Any thread.
  [[nodiscard]] virtual std::optional<std::size_t> refused() const noexcept { return {}; }
  /// Ends connections that are idle, where they are ours: others need their memory. Any thread.
  virtual void end_idle_connections() noexcept {}
  /// Ever: idle ones that were ended for others, where refused() is known. Any thread.
  [[nodiscard]] virtual std::size_t made_room() const noexcept { return 0; }
  /// Any thread.
  [[nodiscard]] virtual grpc_statistics statistics() const noexcept = 0;
};

}  // namespace bwos::server
