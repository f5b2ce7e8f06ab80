// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <vector>

#include "base/mean_time.hpp"
#include "base/ticks.hpp"

namespace bwos::server {

/// A handler that lost its processor for some milliseconds is counted as this many thresholds.
inline constexpr metrics::ticks thresholds_counted = 4;

/// How long each route's handler takes, as a moving mean: decides which requests go through the
/// pool's lane of long work. Any thread. A first call is never long: nothing is known of it.
class route_times {
 public:
  /// Of routes 0 to `count` - 1 (router::count()). `threshold`: a mean above it is long; 0: nothing
  /// is. Throws std::bad_alloc.
  route_times(metrics::ticks threshold, std::size_t count) : threshold_(threshold), means_(count) {}

  [[nodiscard]] bool is_long(std::size_t route) const noexcept {
    return threshold_ != 0 && means_[route].get() > threshold_;
  }

  /// After each call of a route that is not brief (route::brief), so that one that has become short
  /// leaves the lane.
  void note(std::size_t route, metrics::ticks took) noexcept {
    means_[route].note(took, thresholds_counted * threshold_);
  }

 private:
  const metrics::ticks threshold_;
  std::vector<mean_time> means_;
};

}  // namespace bwos::server
