// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <chrono>

namespace bwos::server::h2 {

/// A bucket of tokens, full at first. One thread at a time.
class flood_guard {
 public:
  using clock = std::chrono::steady_clock;

  flood_guard(double burst, double per_second) noexcept
      : tokens_(burst), burst_(burst), per_second_(per_second) {}

  /// Once for each batch, with the time that its frames are counted at.
  void now(clock::time_point when) noexcept {
    if (tokens_ < burst_ && when > filled_) {
      const std::chrono::duration<double> passed = when - filled_;
      tokens_ = std::min(burst_, tokens_ + passed.count() * per_second_);
    }
    filled_ = when;
  }
  /// The peer has done something that it may send more for.
  void earn(double tokens) noexcept { tokens_ = std::min(burst_, tokens_ + tokens); }
  /// False: too many.
  [[nodiscard]] bool take(double tokens) noexcept { return (tokens_ -= tokens) >= 0; }

 private:
  double tokens_;
  const double burst_;
  const double per_second_;
  clock::time_point filled_;
};

}  // namespace bwos::server::h2
