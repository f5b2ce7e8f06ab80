// SPDX-License-Identifier: Apache-2.0
// What GET /work and bwos.Work/Burn do.
#pragma once

#include <time.h>

#include <algorithm>
#include <cstdint>

namespace bwos::peer {

inline constexpr std::uint64_t work_us_max = 10'000;  // the default of the server under test

// Burns time of the calling thread's own CPU clock, so that a preempted handler burns no less.
// Returns how many microseconds: at most work_us_max.
inline std::uint64_t burn_thread_cpu(std::uint64_t microseconds) {
  const auto now = [] {
    timespec time{};
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000 +
           static_cast<std::uint64_t>(time.tv_nsec);
  };
  const std::uint64_t burned = std::min(microseconds, work_us_max);
  const std::uint64_t end = now() + burned * 1000;
  while (now() < end) {
  }
  return burned;
}

}  // namespace bwos::peer
