// SPDX-License-Identifier: Apache-2.0
#include <bwos/parallel.hpp>

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

#include "pool_fixture.hpp"

namespace bwos::testing {
namespace {

class parallel_on : public ::testing::TestWithParam<unsigned> {
 protected:
  pool pool_{options_of(on_futexes, GetParam())};
};
INSTANTIATE_TEST_SUITE_P(workers, parallel_on, ::testing::Values(1, 2, 4),
                         ::testing::PrintToStringParamName());

TEST_P(parallel_on, for_calls_each_index_once) {
  for (const std::size_t count : {0U, 1U, 2U, 3U, 17U, 1000U, 10'000U}) {
    for (const std::size_t grain : {0U, 1U, 7U, 1'000'000U}) {
      std::vector<std::atomic<int>> calls(count);
      parallel_for(pool_, std::size_t{0}, count, [&](std::size_t i) { calls[i].fetch_add(1); },
                   {.grain = grain});
      for (const auto& each : calls) ASSERT_EQ(each.load(), 1);
    }
  }
}

TEST_P(parallel_on, for_takes_any_range_of_any_integer) {
  const auto count_of = [&](auto first, auto last) {
    std::atomic<std::uint64_t> calls{0};
    parallel_for(pool_, first, last, [&](auto i) {
      EXPECT_TRUE(i >= first && i < last);
      calls.fetch_add(1);
    });
    return calls.load();
  };
  EXPECT_EQ(count_of(5, 5), 0U);
  EXPECT_EQ(count_of(5, -5), 0U);
  EXPECT_EQ(count_of(-5, 5), 10U);
  EXPECT_EQ(count_of(std::int8_t{-128}, std::int8_t{127}), 255U);
  EXPECT_EQ(count_of(std::uint8_t{0}, std::uint8_t{255}), 255U);
  constexpr auto most = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(count_of(most - 100, most), 100U);
  constexpr auto least = std::numeric_limits<std::int64_t>::min();
  EXPECT_EQ(count_of(least, least + 100), 100U);
  EXPECT_EQ(count_of(std::numeric_limits<std::uint64_t>::max() - 3,
                     std::numeric_limits<std::uint64_t>::max()),
            3U);
}

TEST_P(parallel_on, a_range_of_all_numbers_overflows_nothing) {
  std::stop_source stopped;
  stopped.request_stop();
  constexpr auto least = std::numeric_limits<std::int64_t>::min();
  constexpr auto most = std::numeric_limits<std::int64_t>::max();
  parallel_for(pool_, least, most, [](std::int64_t) { FAIL(); }, {.stop = stopped.get_token()});
  ASSERT_EQ(detail::turns(least, most), std::numeric_limits<std::uint64_t>::max());
}

TEST_P(parallel_on, reduce_keeps_the_order) {
  for (const int count : {0, 1, 10, 3000}) {
    std::vector<int> expected;
    for (int i = 0; i < count; ++i) expected.push_back(i);
    const auto join = [](std::vector<int> left, std::vector<int> right) {
      left.insert(left.end(), right.begin(), right.end());
      return left;
    };
    const std::vector<int> all =
        parallel_reduce(pool_, 0, count, std::vector<int>(), [](int i) { return std::vector{i}; },
                        join, {.grain = 13});
    ASSERT_EQ(all, expected);
  }
  ASSERT_EQ(parallel_reduce(pool_, 1, 100'001, std::uint64_t{0},
                            [](int i) { return static_cast<std::uint64_t>(i); }),
            5'000'050'000U);
}

TEST_P(parallel_on, a_stop_leaves_out_what_has_not_begun) {
  std::stop_source source;
  std::atomic<int> calls{0};
  parallel_for(pool_, 0, 1'000'000,
               [&](int) {
                 if (calls.fetch_add(1) == 10) source.request_stop();
               },
               {.grain = 100, .stop = source.get_token()});
  ASSERT_LT(calls.load(), 1'000'000);
}

TEST_P(parallel_on, an_exception_comes_when_all_pieces_have_ended) {
  for (int round = 0; round < 1000 / sanitizer_divisor; ++round) {
    std::atomic<int> calls{0};
    try {
      parallel_for(pool_, 0, 1000,
                   [&](int i) {
                     calls.fetch_add(1);
                     if (i == round) throw std::logic_error("thrown");
                   },
                   {.grain = 1});
      FAIL() << "no exception";
    } catch (const std::logic_error&) {
    }
    ASSERT_EQ(calls.load(), 1000);
  }
}

TEST_P(parallel_on, reduce_hands_on_an_exception_of_any_turn_and_of_any_sum) {
  constexpr int count = 40;
  for (int round = 0; round < 1000 / sanitizer_divisor; ++round) {
    std::atomic<int> calls{0};
    std::atomic<int> sums{0};
    const auto body = [&](int i) {
      calls.fetch_add(1);
      if (round % 2 == 0 && i == round % count) throw std::logic_error("thrown");
      return i;
    };
    const auto sum = [&](int left, int right) {
      if (round % 2 == 1 && sums.fetch_add(1) == round % count) throw std::logic_error("thrown");
      return left + right;
    };
    ASSERT_THROW(static_cast<void>(parallel_reduce(pool_, 0, count, 0, body, sum, {.grain = 1})),
                 std::logic_error)
        << round;
    ASSERT_EQ(calls.load(), count);
  }
}

TEST_P(parallel_on, a_loop_in_a_loop_in_a_loop_calls_each_once) {
  std::atomic<int> calls{0};
  parallel_for(pool_, 0, 10, [&](int) {
    parallel_for(pool_, 0, 10,
                 [&](int) { calls += parallel_reduce(pool_, 0, 10, 0, [](int) { return 1; }); });
  });
  ASSERT_EQ(calls.load(), 1000);
}

}  // namespace
}  // namespace bwos::testing
