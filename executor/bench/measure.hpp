// SPDX-License-Identifier: Apache-2.0
// What all programs measure with, whichever library they print their figures by.
#pragma once

#include <sched.h>
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

/// The processors that the process had when this was first called.
inline const std::vector<int>& processors() {
  static const std::vector<int> all = [] {
    cpu_set_t set;
    std::vector<int> result;
    if (::sched_getaffinity(0, sizeof set, &set) != 0) return result;
    for (int i = 0; i < CPU_SETSIZE; ++i) {
      if (CPU_ISSET(i, &set)) result.push_back(i);
    }
    return result;
  }();
  return all;
}

/// The calling thread, to the i-th processor of those of processors().
/// Workers keep to a processor each, so that what is measured is not where the kernel puts a thread
/// that is woken: some put it beside the one that wakes it, however idle the others are.
inline void pin_here(unsigned index) noexcept {
  if (processors().empty()) return;
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(processors()[index % processors().size()], &one);
  ::sched_setaffinity(0, sizeof one, &one);
}

/// `share` of the values are at most this; there is one at least.
inline double quantile(std::vector<double> values, double share) {
  const auto at = static_cast<std::ptrdiff_t>(share * static_cast<double>(values.size() - 1));
  std::nth_element(values.begin(), values.begin() + at, values.end());
  return values[static_cast<std::size_t>(at)];
}

}  // namespace bwos::bench
