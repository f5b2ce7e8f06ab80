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
  std::uint64_t since = 0;  ///< The lane's: when it came, in ticks of the processor's counter.
};

}  // namespace bwos
