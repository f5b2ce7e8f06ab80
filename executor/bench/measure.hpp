// SPDX-License-Identifier: Apache-2.0
// What all programs measure with, whichever library they print their figures by.
#pragma once

#include <time.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <vector>

namespace bwos::bench {

inline double seconds(clockid_t which) {
  timespec now{};
  ::clock_gettime(which, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}
/// Seconds of CPU that all threads of the process have taken.
inline double cpu_seconds() {
  return seconds(CLOCK_PROCESS_CPUTIME_ID);
}

/// Little is to be done, only to see that it works (run.py --quick).
inline bool is_quick() {
  return std::getenv("BWOS_BENCH_QUICK") != nullptr;
}

/// `share` of the values are at most this; there is one at least.
inline double quantile(std::vector<double> values, double share) {
  const auto at = static_cast<std::ptrdiff_t>(share * static_cast<double>(values.size() - 1));
  std::nth_element(values.begin(), values.begin() + at, values.end());
  return values[static_cast<std::size_t>(at)];
}

}  // namespace bwos::bench
