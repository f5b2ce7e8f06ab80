// SPDX-License-Identifier: Apache-2.0
#include "scheduler/scheduler.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "scheduler/worker.hpp"

namespace bwos {
namespace {

/// A reactor that nobody uses: only whose it is counts here.
class no_reactor final : public reactor {
 public:
  no_reactor() noexcept : reactor(-1) {}
  void start() override {}
  void poll(continuation_chain&, std::size_t) noexcept override {}
  bool wait(continuation_chain&) noexcept override { return false; }
  bool take_token() noexcept override { return false; }
  void wake() noexcept override {}
  descriptor* adopt(int, std::uint64_t) noexcept override { return nullptr; }
  descriptor* listen(int, bool) noexcept override { return nullptr; }
  void close(descriptor&) noexcept override {}
  bool receive(descriptor&, const receive_room&, received&) noexcept override { return false; }
  bool wait(descriptor&, std::uint32_t, continuation&) noexcept override { return false; }

 private:
  std::unique_ptr<descriptor> make_descriptor() override { return nullptr; }
};

TEST(scheduler, groups_are_contiguous_and_even) {
  for (const unsigned workers : {1U, 2U, 3U, 8U, 9U, 16U, 17U, 31U}) {
    for (unsigned groups = 1; groups <= workers; ++groups) {
      std::vector<no_reactor> reactors(groups);
      std::vector<reactor*> pointers;
      for (no_reactor& each : reactors) pointers.push_back(&each);
      options settings;
      settings.workers = workers;
      const scheduler tested(settings, pointers);
      std::vector<unsigned> sizes(groups);
      unsigned last = 0;
      for (unsigned i = 0; i < workers; ++i) {
        const scheduler::assignment to = tested.assignment_of(i);
        ASSERT_LT(to.word, groups);
        EXPECT_GE(to.word, last);
        EXPECT_EQ(to.home, pointers[to.word]);
        last = to.word;
        ++sizes[to.word];
      }
      for (const unsigned size : sizes) {
        EXPECT_GE(size, workers / groups);
        EXPECT_LE(size, workers / groups + 1);
      }
    }
  }
}

TEST(scheduler, looks_at_all_of_a_group_and_at_nobody_else) {
  constexpr unsigned groups = 3;
  std::vector<no_reactor> reactors(groups);
  std::vector<reactor*> pointers;
  for (no_reactor& each : reactors) pointers.push_back(&each);
  options settings;
  settings.workers = 7;
  settings.receive_bytes = 1024;
  scheduler tested(settings, pointers);
  for (unsigned i = 0; i < 12; ++i) {  // five of them attached
    const scheduler::assignment to = tested.assignment_of(i);
    tested.install(i, std::make_unique<worker>(tested, i, nullptr, to.home, nullptr));
  }
  tested.publish(12);
  for (unsigned word = 0; word < groups; ++word) {
    std::vector<unsigned> seen;
    EXPECT_FALSE(tested.any_in_group(word, [&](const worker& each) {
      seen.push_back(each.index);
      return false;
    }));
    std::vector<unsigned> expected;
    for (unsigned i = 0; i < 12; ++i) {
      if (tested.assignment_of(i).word == word) expected.push_back(i);
    }
    EXPECT_EQ(seen, expected);
    EXPECT_TRUE(tested.any_in_group(
        word, [&](const worker& each) { return each.index == expected.back(); }));
  }
}

/// Which of a group sleeps is not known, so all of them are looked at while one is awake.
TEST(scheduler, nobody_of_a_group_need_be_looked_at_where_all_of_it_sleep) {
  constexpr unsigned groups = 3;
  std::vector<no_reactor> reactors(groups);
  std::vector<reactor*> pointers;
  for (no_reactor& each : reactors) pointers.push_back(&each);
  options settings;
  settings.workers = 7;
  settings.receive_bytes = 1024;
  scheduler tested(settings, pointers);
  constexpr unsigned workers = 12;  // five of them attached
  for (unsigned i = 0; i < workers; ++i) {
    tested.install(
        i, std::make_unique<worker>(tested, i, nullptr, tested.assignment_of(i).home, nullptr));
  }
  tested.publish(workers);
  for (unsigned next = 0; next < workers; ++next) {
    tested.idle.announce(tested.assignment_of(next).word, 0, false);
    for (unsigned i = 0; i < workers; ++i) {
      bool all_sleep = true;
      for (unsigned other = next + 1; other < workers; ++other) {
        if (tested.assignment_of(other).word == tested.assignment_of(i).word) all_sleep = false;
      }
      EXPECT_EQ(tested.is_parked(i), all_sleep) << i << " after " << next;
    }
  }
  static_cast<void>(tested.wake_one(0));
  EXPECT_FALSE(tested.is_parked(0));  // one of it was claimed
}

TEST(scheduler, each_who_sleeps_by_itself_need_not_be_looked_at) {
  options settings;
  settings.workers = 100;
  scheduler tested(settings, {});
  tested.idle.announce(1, 2, false);
  for (unsigned i = 0; i < 100; ++i) EXPECT_EQ(tested.is_parked(i), i == 50) << i;
}

TEST(scheduler, workers_that_sleep_by_themselves_have_a_bit_each) {
  options settings;
  settings.workers = 100;
  const scheduler tested(settings, {});
  EXPECT_EQ(tested.assignment_of(47).word, 0U);
  EXPECT_EQ(tested.assignment_of(48).word, 1U);
  EXPECT_EQ(tested.assignment_of(48).bit, 0U);
  EXPECT_EQ(tested.assignment_of(99).bit, 3U);
  EXPECT_EQ(tested.assignment_of(99).home, nullptr);
}

}  // namespace
}  // namespace bwos
