// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace bwos::server::rpc {

/// What the calls of one connection may take, beside h2::limits.
struct call_limits {
  /// One message, as it comes and expanded; above: RESOURCE_EXHAUSTED, before any of it is kept
  /// (--grpc-message-bytes-max).
  std::size_t message_bytes_max = std::size_t{4} * 1024 * 1024;
  /// A compressed message that is more times as large when expanded: RESOURCE_EXHAUSTED. 0: any may
  /// be, as gRPC's own interoperability cases send 912:1 (--h2-inflate-ratio-max).
  std::uint64_t inflate_ratio_max = 0;
  /// Unary methods whose handlers take longer on average wait for a worker that has nothing else to
  /// do (--lane-threshold-us); 0: none does.
  std::chrono::microseconds lane_threshold{0};
};

}  // namespace bwos::server::rpc
