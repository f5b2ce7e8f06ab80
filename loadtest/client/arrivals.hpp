// SPDX-License-Identifier: Apache-2.0
// When the next request of a connection is due, whatever became of the one before it.
#pragma once

#include <cmath>
#include <cstdint>
#include <random>

namespace bwos::load {

enum class arrival_kind { fixed, poisson };

class arrivals {
 public:
  arrivals(arrival_kind kind, double per_second, std::uint64_t seed)
      : kind_(kind), mean_gap_ns_(1e9 / per_second), random_(seed) {}

  // From the start to the first request: fixed arrivals begin at a random phase, so that the
  // connections of a class do not all send at once.
  double first_gap_ns() {
    return kind_ == arrival_kind::fixed ? uniform() * mean_gap_ns_ : next_gap_ns();
  }

  double next_gap_ns() {
    return kind_ == arrival_kind::fixed ? mean_gap_ns_ : -std::log1p(-uniform()) * mean_gap_ns_;
  }

 private:
  // 53 random bits in [0, 1); std::uniform_real_distribution may round up to 1.
  double uniform() { return static_cast<double>(random_() >> 11) * 0x1p-53; }

  arrival_kind kind_;
  double mean_gap_ns_;
  std::mt19937_64 random_;
};

}  // namespace bwos::load
