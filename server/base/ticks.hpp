// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bwos/ticks.hpp>
#include <chrono>

namespace bwos::server::metrics {

using bwos::now_ticks;
using bwos::ticks;

/// Ticks of one microsecond, measured against steady_clock for 2 ms.
inline double measure_ticks_per_us() noexcept {
  using namespace std::chrono;
  const auto start = steady_clock::now();
  const ticks first = now_ticks();
  auto end = start;
  while (end - start < milliseconds(2)) end = steady_clock::now();
  const double elapsed_us = duration<double, std::micro>(end - start).count();
  return static_cast<double>(now_ticks() - first) / elapsed_us;
}

}  // namespace bwos::server::metrics
