// SPDX-License-Identifier: Apache-2.0
// Counts of values by log-linear buckets: 3 significant digits at any magnitude, fixed memory.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace bwos::load {

// Values below 2048 have a bucket each. Above, every power of two is cut into 1024 buckets, so a
// bucket is at most 1/1024 of its values wide and its middle is within 0.05 % of each of them.
class histogram {
 public:
  static constexpr std::int64_t value_max = (std::int64_t{1} << 40) - 1;  // 18 minutes in ns

  histogram() : counts_(index_of(value_max) + 1) {}

  void record(std::int64_t value) noexcept {
    const std::int64_t kept = std::clamp<std::int64_t>(value, 0, value_max);
    ++counts_[index_of(kept)];
    ++count_;
    sum_ += static_cast<double>(kept);
    max_ = std::max(max_, kept);
  }

  void merge(const histogram& other) noexcept {
    for (std::size_t i = 0; i < counts_.size(); ++i) counts_[i] += other.counts_[i];
    count_ += other.count_;
    sum_ += other.sum_;
    max_ = std::max(max_, other.max_);
  }

  std::uint64_t count() const noexcept { return count_; }
  std::int64_t max() const noexcept { return max_; }  // exact
  double mean() const noexcept { return count_ == 0 ? 0 : sum_ / static_cast<double>(count_); }

  // The least value that `percent` of all values do not exceed; 0 when nothing was recorded.
  std::int64_t percentile(double percent) const noexcept {
    if (count_ == 0) return 0;
    const double exact_rank = std::ceil(percent / 100 * static_cast<double>(count_));
    const auto rank = std::clamp<std::uint64_t>(static_cast<std::uint64_t>(exact_rank), 1, count_);
    std::uint64_t seen = 0;
    for (std::size_t i = 0; i < counts_.size(); ++i) {
      seen += counts_[i];
      if (seen >= rank) return std::min(middle_of(i), max_);
    }
    return max_;
  }

 private:
  static constexpr int linear_bits = 11;
  static constexpr std::size_t half = std::size_t{1} << (linear_bits - 1);

  static std::size_t index_of(std::int64_t value) noexcept {
    const auto bits = static_cast<std::uint64_t>(value);
    const int shift = std::max(0, static_cast<int>(std::bit_width(bits)) - linear_bits);
    return static_cast<std::size_t>(shift) * half + static_cast<std::size_t>(bits >> shift);
  }

  static std::int64_t middle_of(std::size_t index) noexcept {
    if (index < 2 * half) return static_cast<std::int64_t>(index);
    const std::size_t shift = index / half - 1;
    const std::size_t low = (index - shift * half) << shift;
    return static_cast<std::int64_t>(low + (std::size_t{1} << shift) / 2);
  }

  std::vector<std::uint64_t> counts_;
  std::uint64_t count_ = 0;
  double sum_ = 0;
  std::int64_t max_ = 0;
};

}  // namespace bwos::load
