// SPDX-License-Identifier: Apache-2.0
// The clocks: the processor's counter for slices and means of task time, steady_now() for
// deadlines.
#pragma once

#include <algorithm>
#include <bwos/ticks.hpp>
#include <chrono>

namespace bwos {

/// The clock of deadlines.
inline std::chrono::steady_clock::time_point steady_now() noexcept {
  return std::chrono::steady_clock::now();
}

/// Ticks of one microsecond, measured against steady_clock three times for 100 us (within a few per
/// cent: enough for slices). The smallest counts: who loses the processor between the two clocks'
/// readings finds too many.
inline ticks measure_ticks_per_us() noexcept {
  using namespace std::chrono;
  ticks least = ~ticks{0};
  for (int i = 0; i < 3; ++i) {
    const auto start = steady_clock::now();
    const ticks first = now_ticks();
    auto end = start;
    while (end - start < microseconds(100)) end = steady_clock::now();
    const auto elapsed = static_cast<ticks>(duration_cast<nanoseconds>(end - start).count());
    least = std::min(least, (now_ticks() - first) * 1000 / elapsed);
  }
  return std::max(least, ticks{1});
}

}  // namespace bwos
