// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <atomic>

#include "base/ticks.hpp"

namespace bwos::server {

/// How long something takes, as a moving mean of eighths. Any thread. Zero: nothing is known.
class mean_time {
 public:
  [[nodiscard]] metrics::ticks get() const noexcept {
    // [mean.get] relaxed: a hint, nothing is read on its strength. Partner: [mean.note].
    return mean_.load(std::memory_order_relaxed);
  }

  /// Once more, counted as at most `most`: what lost its processor for some milliseconds does not
  /// become long by that.
  void note(metrics::ticks took, metrics::ticks most) noexcept {
    const metrics::ticks before = get();
    // [mean.note] relaxed: publishes nothing but itself; of two at once one may be lost. Partner:
    // [mean.get].
    mean_.store(before - before / 8 + std::min(took, most) / 8, std::memory_order_relaxed);
  }

 private:
  std::atomic<metrics::ticks> mean_{0};
};

}  // namespace bwos::server
