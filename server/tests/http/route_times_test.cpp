// SPDX-License-Identifier: Apache-2.0
#include "http/route_times.hpp"

#include <gtest/gtest.h>

namespace bwos::server {
namespace {

constexpr metrics::ticks threshold = 50'000;
constexpr std::size_t count = 2;
constexpr std::size_t one = 1;
constexpr std::size_t other = 0;

void note(route_times& times, std::size_t where, metrics::ticks took, int calls) {
  for (int i = 0; i < calls; ++i) times.note(where, took);
}

TEST(route_times, a_route_is_long_from_the_third_call_or_so) {
  route_times times(threshold, count);
  EXPECT_FALSE(times.is_long(one));
  note(times, one, 4 * threshold, 1);
  EXPECT_FALSE(times.is_long(one));
  note(times, one, 4 * threshold, 3);
  EXPECT_TRUE(times.is_long(one));
  EXPECT_FALSE(times.is_long(other));
}

TEST(route_times, a_route_that_became_short_is_not_long_any_more) {
  route_times times(threshold, count);
  note(times, one, 1000 * threshold, 100);
  ASSERT_TRUE(times.is_long(one));
  note(times, one, threshold / 10, 20);
  EXPECT_FALSE(times.is_long(one));
}

TEST(route_times, one_call_that_lost_its_processor_makes_no_route_long) {
  route_times times(threshold, count);
  note(times, one, threshold / 10, 100);
  note(times, one, 1000 * threshold, 1);
  EXPECT_FALSE(times.is_long(one));
}

TEST(route_times, what_takes_just_less_than_the_threshold_is_short_and_more_is_long) {
  route_times times(threshold, count);
  note(times, one, threshold * 95 / 100, 1000);
  EXPECT_FALSE(times.is_long(one));
  note(times, one, threshold * 105 / 100, 1000);
  EXPECT_TRUE(times.is_long(one));
}

TEST(route_times, a_threshold_of_zero_makes_nothing_long) {
  route_times times(0, count);
  note(times, one, 1'000'000'000, 100);
  EXPECT_FALSE(times.is_long(one));
}

}  // namespace
}  // namespace bwos::server
