// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bwos/pool.hpp>
#include <chrono>

namespace bwos::server {

/// A bound on how long requests wait for a worker: where those that run now have waited longer, new
/// ones are turned away, so that what is served is served in time. It ends by itself: turning away
/// is quick, and the age is measured on, whoever comes.
class queue_age_bound {
 public:
  /// A bound of 0 is never exceeded; `workers` may be null then.
  queue_age_bound(const pool* workers, std::chrono::microseconds bound) noexcept
      : workers_(workers), bound_(bound) {}

  /// On a worker, about the requests that its reactor brings. `now` may be a little late.
  [[nodiscard]] bool exceeded(std::chrono::steady_clock::time_point now) const noexcept {
    return bound_.count() != 0 && workers_->queue_age(now) > bound_;
  }
  /// About the requests that wait in the lane.
  [[nodiscard]] bool exceeded_in_lane() const noexcept {
    return bound_.count() != 0 && workers_->lane_age() > bound_;
  }

  /// How often to measure, for options::queue_age_interval: often enough to see the bound exceeded
  /// before twice that has passed. 0: not at all.
  [[nodiscard]] static std::chrono::milliseconds interval(std::chrono::microseconds bound) noexcept;

 private:
  const pool* const workers_;
  const std::chrono::microseconds bound_;
};

}  // namespace bwos::server
