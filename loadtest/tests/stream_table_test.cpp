// SPDX-License-Identifier: Apache-2.0
#include "stream_table.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <iterator>
#include <map>
#include <random>

namespace {

struct call {
  std::uint32_t stream = 0;
  std::uint64_t value = 0;
};
using table = bwos::load::h2::stream_table<call>;

void expect_equal(table& found, const std::map<std::uint32_t, std::uint64_t>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  std::size_t seen = 0;
  found.for_each([&](const call& each) {
    ++seen;
    ASSERT_TRUE(expected.contains(each.stream));
    ASSERT_EQ(expected.at(each.stream), each.value);
  });
  ASSERT_EQ(seen, expected.size());
}

TEST(stream_table, agrees_with_a_map_whatever_ends_when) {
  std::mt19937_64 random(5);
  for (const std::size_t in_flight : {1U, 7U, 100U, 1000U}) {
    table found;
    std::map<std::uint32_t, std::uint64_t> expected;
    std::uint32_t next = 1;
    for (int i = 0; i < 20'000; ++i) {
      if (expected.size() < in_flight && random() % 8 != 0) {
        found.insert(next).value = random();
        expected[next] = found.find(next)->value;
        next += 2;
      } else if (!expected.empty()) {
        // Mostly old ones, now and then any: some stay while thousands pass.
        const std::size_t at = random() % (random() % 4 == 0 ? expected.size() : 1);
        const auto which = std::next(expected.begin(), static_cast<std::ptrdiff_t>(at));
        call* const of = found.find(which->first);
        ASSERT_NE(of, nullptr);
        ASSERT_EQ(of->value, which->second);
        found.erase(*of);
        ASSERT_EQ(found.find(which->first), nullptr);
        expected.erase(which);
      }
    }
    expect_equal(found, expected);
  }
}

TEST(stream_table, a_call_that_stays_costs_no_room_beside_others) {
  table found;
  found.insert(1).value = 77;
  for (std::uint32_t stream = 3; stream < 2'000'001; stream += 2) {
    found.insert(stream);
    found.erase(*found.find(stream));
  }
  ASSERT_NE(found.find(1), nullptr);
  EXPECT_EQ(found.find(1)->value, 77U);
  EXPECT_EQ(found.size(), 1U);
}

TEST(stream_table, a_place_taken_again_is_fresh) {
  table found;
  found.insert(1).value = 5;
  found.erase(*found.find(1));
  EXPECT_EQ(found.insert(33).value, 0U);  // the same place
  found.clear();
  EXPECT_EQ(found.size(), 0U);
  EXPECT_EQ(found.find(33), nullptr);
}

}  // namespace
