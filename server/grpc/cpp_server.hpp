// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace bwos::server {

class executor;

/// Every tunable and limit of the gRPC server, with unit, default and range.
struct grpc_options {
  /// HOST:PORT to listen on; port 0 takes a free one.
  std::string address = "127.0.0.1:50051";
  /// Largest request, in bytes, 1 to 1 GiB; above it the call ends with RESOURCE_EXHAUSTED.
  std::size_t message_bytes_max = std::size_t{4} * 1024 * 1024;
  /// Calls open at once on one connection, 1 to 65535; a client keeps the rest waiting on its side.
  unsigned streams_max = 1000;
  /// Completion queues, each with a thread that polls it, 1 to 64.
  unsigned queue_threads = default_queue_threads();
  /// Calls that each queue can have in hand at once, 1 to 65536, of 3 KiB each (measured). More
  /// wait inside gRPC; a stop refuses those. Server CPU per call with 1,000 in flight, by ghz: 16
  /// cost 9 % more than 1,024, and 4,096 cost 5 % less.
  unsigned calls_armed = 1024;

  /// Half of the workers' number, 1 to 4: a guess. The pollers only receive and hand over; the
  /// executor does the sending.
  static unsigned default_queue_threads() noexcept;
  /// Throws std::invalid_argument naming the option, its value and the valid range.
  void validate() const;
};

/// Calls since the start. Every started call ends as exactly one of the other three.
struct grpc_statistics {
  std::uint64_t started = 0;  ///< Calls that reached the server's coroutines.
  std::uint64_t ok = 0;       ///< Answered with status OK.
  std::uint64_t failed = 0;   ///< Answered with another status because the handler threw.
  /// Ended by the caller, its deadline, a lost connection or the stop's deadline.
  std::uint64_t cancelled = 0;
  /// Of those cancelled: over before a worker came to them; no handler was run.
  std::uint64_t unserved = 0;
};

/// helloworld.Greeter on gRPC C++, with health service and server reflection. Completion queues are
/// polled by threads of their own; each call is a coroutine, which they hand to the executor
/// whenever a step of it is complete.
class grpc_server {
 public:
  /// Listens and serves. Throws std::invalid_argument for a bad option, std::system_error where the
  /// address cannot be listened on (std::errc::address_in_use and others). `workers` must run until
  /// shutdown() has returned.
  grpc_server(executor& workers, const grpc_options& settings);
  /// shutdown() at once, if it has not been called.
  ~grpc_server();
  grpc_server(const grpc_server&) = delete;
  grpc_server& operator=(const grpc_server&) = delete;

  /// HOST:PORT as bound.
  [[nodiscard]] std::string address() const;

  /// Any thread: the health service says NOT_SERVING from now on; calls are served as before.
  void begin_drain() noexcept;

  /// Stops listening, lets the calls in flight finish until `deadline`, then cancels them; returns
  /// when every call's coroutine has ended and the queues are empty. Not from a thread of the
  /// executor, and not by two threads at once.
  void shutdown(std::chrono::steady_clock::time_point deadline);

  /// Any thread.
  [[nodiscard]] grpc_statistics statistics() const noexcept;

 private:
  struct core;
  std::unique_ptr<core> core_;
};

}  // namespace bwos::server
