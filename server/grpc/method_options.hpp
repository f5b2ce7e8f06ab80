// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <limits>

namespace bwos::server::rpc {

/// What a method declares of itself where it is added. Native gRPC goes by it; gRPC C++ has limits
/// of its own, for all methods alike.
struct method_options {
  /// One request message, expanded; above: RESOURCE_EXHAUSTED. --grpc-message-bytes-max holds, too.
  std::size_t request_bytes_max = std::numeric_limits<std::size_t>::max();
  /// Calls open at once on one connection; above: RESOURCE_EXHAUSTED. For methods whose streams
  /// wait for events, and cost their caller nothing meanwhile.
  std::size_t calls_max = std::numeric_limits<std::size_t>::max();
  /// Served however long others wait for a worker (--queue-age-max).
  bool vital = false;
};

/// Of health and reflection: names of services, files and types are what their requests have.
inline constexpr std::size_t name_request_bytes_max = 16 * 1024;
/// Of streams that wait for events. A guess: a channel needs one or two of each.
inline constexpr std::size_t waiting_calls_max = 100;

}  // namespace bwos::server::rpc
