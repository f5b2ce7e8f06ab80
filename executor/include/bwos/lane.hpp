// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <bwos/continuation.hpp>

namespace bwos {

/// A place in a pool's lane of long work; lies in the awaiter of pool::lane(), so that entering it
/// allocates nothing.
struct lane_entry {
  continuation* work = nullptr;
  lane_entry* next = nullptr;
  /// When the work began to wait (now_ticks(), bwos/ticks.hpp), if that was earlier: its age counts
  /// from then, and it comes before what has waited less. 0: when it enters.
  std::uint64_t since = 0;
};

}  // namespace bwos
