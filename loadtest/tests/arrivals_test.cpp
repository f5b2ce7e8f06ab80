// SPDX-License-Identifier: Apache-2.0
#include "arrivals.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace {

using bwos::load::arrival_kind;
using bwos::load::arrivals;

struct moments {
  double mean;
  double variance;
};

moments of_counts(const std::vector<double>& counts) {
  double sum = 0;
  for (const double count : counts) sum += count;
  const double mean = sum / static_cast<double>(counts.size());
  double squares = 0;
  for (const double count : counts) squares += (count - mean) * (count - mean);
  return {mean, squares / static_cast<double>(counts.size() - 1)};
}

TEST(arrivals, poisson_gaps_have_the_mean_and_variance_of_an_exponential) {
  arrivals source(arrival_kind::poisson, 1000, 11);  // mean 1e6 ns, so variance 1e12
  std::vector<double> gaps(200'000);
  for (double& gap : gaps) gap = source.next_gap_ns();
  const moments found = of_counts(gaps);
  EXPECT_NEAR(found.mean, 1e6, 1e6 * 0.01);
  EXPECT_NEAR(found.variance, 1e12, 1e12 * 0.03);
}

TEST(arrivals, poisson_counts_in_equal_windows_have_variance_equal_to_their_mean) {
  arrivals source(arrival_kind::poisson, 10'000, 5);
  constexpr double window_ns = 1e6;  // 10 arrivals on average
  std::vector<double> counts(20'000);
  double now = source.first_gap_ns();
  for (std::size_t i = 0; i < counts.size(); ++i) {
    for (; now < window_ns * static_cast<double>(i + 1); now += source.next_gap_ns()) ++counts[i];
  }
  const moments found = of_counts(counts);
  EXPECT_NEAR(found.mean, 10, 0.1);
  EXPECT_NEAR(found.variance, 10, 0.4);
}

TEST(arrivals, fixed_gaps_are_all_the_same_after_a_random_phase) {
  arrivals source(arrival_kind::fixed, 4000, 1);
  const double phase = source.first_gap_ns();
  EXPECT_GE(phase, 0);
  EXPECT_LT(phase, 250'000);
  EXPECT_NE(phase, arrivals(arrival_kind::fixed, 4000, 2).first_gap_ns());
  for (int i = 0; i < 100; ++i) EXPECT_DOUBLE_EQ(source.next_gap_ns(), 250'000);
}

TEST(arrivals, the_same_seed_gives_the_same_arrivals) {
  arrivals one(arrival_kind::poisson, 50, 9);
  arrivals other(arrival_kind::poisson, 50, 9);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(one.next_gap_ns(), other.next_gap_ns());
}

}  // namespace
