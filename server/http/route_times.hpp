// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>

#include "app/routes.hpp"
#include "base/mean_time.hpp"
#include "base/ticks.hpp"

namespace bwos::server {

/// A handler that lost its processor for some milliseconds is counted as this many thresholds.
inline constexpr metrics::ticks thresholds_counted = 4;

/// How long each route's handler takes, as a moving mean: decides which requests go through the
/// pool's lane of long work. Any thread. A first call is never long: nothing is known of it.
class route_times {
 public:
  /// `threshold`: a mean above it is long; 0: nothing is.
  explicit route_times(metrics::ticks threshold) noexcept : threshold_(threshold) {}

  [[nodiscard]] bool is_long(route where) const noexcept {
    return threshold_ != 0 && means_[static_cast<std::size_t>(where)].get() > threshold_;
  }

  /// After each call of a route that is not brief (routes.hpp), so that one that has become short
  /// leaves the lane.
  void note(route where, metrics::ticks took) noexcept {
    means_[static_cast<std::size_t>(where)].note(took, thresholds_counted * threshold_);
  }

 private:
  const metrics::ticks threshold_;
  std::array<mean_time, routes.size()> means_{};
};

}  // namespace bwos::server
