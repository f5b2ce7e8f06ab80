// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>

namespace bwos::server {

/// Every tunable and limit of the server on gRPC C++, with unit, default and range.
struct grpc_options {
  /// HOST:PORT to listen on; port 0 takes a free one.
  std::string address = "127.0.0.1:50051";
  /// Largest request, in bytes, 1 to 1 GiB; above it the call ends with RESOURCE_EXHAUSTED.
  std::size_t message_bytes_max = std::size_t{4} * 1024 * 1024;
  /// Calls open at once on one connection, 1 to 65535; a client keeps the rest waiting on its side.
  unsigned streams_max = 1000;
  /// Completion queues, each with a thread that polls it, 1 to 64.
  unsigned queue_threads = default_queue_threads();
  /// Calls of each method that each queue can have in hand at once, 1 to 65536, of 3 KiB each
  /// (measured). More wait inside gRPC; a stop refuses those. Server CPU per call with 1,000 in
  /// flight, by ghz: 16 cost 9 % more than 1,024, and 4,096 cost 5 % less.
  unsigned calls_armed = 1024;

  /// Half of the workers' number, 1 to 4: a guess. The pollers only receive and hand over; the
  /// executor does the sending.
  static unsigned default_queue_threads() noexcept;
  /// Throws std::invalid_argument naming the option, its value and the valid range.
  void validate() const;
};

}  // namespace bwos::server
