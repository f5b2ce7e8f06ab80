// SPDX-License-Identifier: Apache-2.0
#include "histogram.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <random>
#include <vector>

namespace {

using bwos::load::histogram;

constexpr double percents[] = {0, 0.1, 1, 10, 50, 90, 99, 99.9, 99.99, 100};

// The value of the same rank in the sorted samples.
std::int64_t exact(const std::vector<std::int64_t>& sorted, double percent) {
  const double rank = std::ceil(percent / 100 * static_cast<double>(sorted.size()));
  return sorted[static_cast<std::size_t>(std::max(rank, 1.0)) - 1];
}

void expect_three_digits(const std::function<double(std::mt19937_64&)>& draw) {
  std::mt19937_64 random(7);
  histogram counted;
  std::vector<std::int64_t> sorted;
  for (int i = 0; i < 100'000; ++i) {
    sorted.push_back(static_cast<std::int64_t>(draw(random)));
    counted.record(sorted.back());
  }
  std::sort(sorted.begin(), sorted.end());
  for (const double percent : percents) {
    const std::int64_t want = exact(sorted, percent);
    EXPECT_NEAR(static_cast<double>(counted.percentile(percent)), static_cast<double>(want),
                static_cast<double>(want) * 0.0005)
        << "at " << percent << " %";
  }
  EXPECT_EQ(counted.max(), sorted.back());
  EXPECT_EQ(counted.count(), sorted.size());
}

TEST(histogram, agrees_with_sorted_uniform_samples) {
  expect_three_digits(
      [](auto& random) { return std::uniform_real_distribution(0.0, 5e6)(random); });
}

TEST(histogram, agrees_with_sorted_exponential_samples) {
  expect_three_digits([](auto& random) { return std::exponential_distribution(1e-5)(random); });
}

TEST(histogram, agrees_with_sorted_samples_over_nine_magnitudes) {
  expect_three_digits([](auto& random) {
    return std::pow(10.0, std::uniform_real_distribution(0.0, 9.0)(random));
  });
}

TEST(histogram, small_values_are_exact) {
  for (std::int64_t value = 0; value < 2048; ++value) {
    histogram one;
    one.record(value);
    EXPECT_EQ(one.percentile(50), value);
  }
}

TEST(histogram, bucket_borders_keep_three_digits_and_never_exceed_the_maximum) {
  for (int bit = 11; bit < 40; ++bit) {
    for (const std::int64_t offset : {-1, 0, 1}) {
      histogram one;
      const std::int64_t value = (std::int64_t{1} << bit) + offset;
      one.record(value);
      EXPECT_LE(one.percentile(50), value);
      EXPECT_NEAR(static_cast<double>(one.percentile(50)), static_cast<double>(value),
                  static_cast<double>(value) * 0.0005);
    }
  }
}

TEST(histogram, values_out_of_range_count_at_its_ends) {
  histogram both;
  both.record(-5);
  both.record(histogram::value_max + 1000);
  EXPECT_EQ(both.count(), 2U);
  EXPECT_EQ(both.percentile(50), 0);
  EXPECT_EQ(both.max(), histogram::value_max);
}

TEST(histogram, merged_parts_equal_the_whole) {
  std::mt19937_64 random(3);
  histogram whole;
  histogram parts[3];
  for (std::size_t i = 0; i < 30'000; ++i) {
    const auto value = static_cast<std::int64_t>(random() % 10'000'000);
    whole.record(value);
    parts[i % 3].record(value);
  }
  parts[0].merge(parts[1]);
  parts[0].merge(parts[2]);
  for (const double percent : percents) {
    EXPECT_EQ(parts[0].percentile(percent), whole.percentile(percent));
  }
  EXPECT_EQ(parts[0].count(), whole.count());
  EXPECT_DOUBLE_EQ(parts[0].mean(), whole.mean());
}

TEST(histogram, empty_one_reports_zero) {
  EXPECT_EQ(histogram().percentile(99), 0);
  EXPECT_EQ(histogram().mean(), 0);
}

}  // namespace
