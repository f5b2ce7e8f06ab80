// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <atomic>

#include "metrics/ticks.hpp"
#include "routes.hpp"

namespace bwos::server {

/// How long each route's handler takes, as a moving mean: decides which requests go through the
/// pool's lane of long work. Any thread. A first call is never long: nothing is known of it.
class route_times {
 public:
  /// `threshold`: a mean above it is long; 0: nothing is.
  explicit route_times(metrics::ticks threshold) noexcept : threshold_(threshold) {}

  [[nodiscard]] bool is_long(route where) const noexcept {
    if (threshold_ == 0) return false;
    // [route.mean] relaxed: a hint, nothing is read on its strength. Partner: [route.note].
    return means_[static_cast<std::size_t>(where)].load(std::memory_order_relaxed) > threshold_;
  }

  /// After each call of a route that is not brief (routes.hpp), so that one that has become short
  /// leaves the lane. A call counts as at most four thresholds: a handler that lost its processor
  /// for some milliseconds does not make its route long.
  void note(route where, metrics::ticks took) noexcept {
    std::atomic<metrics::ticks>& mean = means_[static_cast<std::size_t>(where)];
    // [route.before] relaxed: of two updates at once one may be lost. Partner: [route.note].
    const metrics::ticks before = mean.load(std::memory_order_relaxed);
    const metrics::ticks counted = std::min(took, 4 * threshold_);
    // [route.note] relaxed: publishes nothing but itself. Partner: [route.mean].
    mean.store(before - before / 8 + counted / 8, std::memory_order_relaxed);
  }

 private:
  const metrics::ticks threshold_;
  std::array<std::atomic<metrics::ticks>, routes.size()> means_{};
};

}  // namespace bwos::server
