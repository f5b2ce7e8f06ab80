// SPDX-License-Identifier: Apache-2.0
// Stands in front of executor/src/base/ticks.hpp: both clocks are the simulated machine's.
#pragma once

#include <chrono>
#include <cstdint>
#include <source_location>

#include "machine.hpp"

namespace bwos {

using ticks = std::uint64_t;

inline ticks now_ticks(std::source_location at = std::source_location::current()) noexcept {
  simulation::machine* const here = simulation::machine::current();
  if (here == nullptr) return 0;
  here->step("looks at the clock", at);
  return here->now();
}

inline std::chrono::steady_clock::time_point steady_now(
    std::source_location at = std::source_location::current()) noexcept {
  return std::chrono::steady_clock::time_point(std::chrono::nanoseconds(now_ticks(at)));
}

inline ticks measure_ticks_per_us() noexcept {
  return simulation::microsecond;
}

}  // namespace bwos
