// SPDX-License-Identifier: Apache-2.0
#include "scheduler/slice.hpp"

#include <gtest/gtest.h>

#include <chrono>

namespace bwos {
namespace {

using namespace std::chrono_literals;

constexpr ticks us = 1'000;

options small_slices() {
  options settings;
  settings.slice_tasks = 4;
  settings.slice = 300us;
  return settings;
}

/// A run of `count` tasks of `length` each from `now` on, without an end in between.
void run(slice& tested, ticks& now, unsigned count, ticks length) {
  tested.begin_run(now);
  for (unsigned i = 0; i < count; ++i) {
    now += length;
    if (tested.count_task()) tested.note_time(now);
  }
  if (tested.lacks_time()) tested.note_time(now);
  tested.end_run();
}

TEST(slice, is_spent_after_so_many_tasks_also_of_several_runs) {
  slice tested(small_slices(), us);
  ticks now = 1'000 * us;
  tested.begin(now);
  run(tested, now, 3, us);
  EXPECT_FALSE(tested.spent());
  run(tested, now, 1, us);
  EXPECT_TRUE(tested.spent());
  tested.begin(now);
  EXPECT_FALSE(tested.spent());
}

TEST(slice, is_spent_after_its_time) {
  slice tested(small_slices(), us);
  ticks now = 1'000 * us;
  tested.begin(now);
  run(tested, now, 1, 299 * us);
  EXPECT_FALSE(tested.spent());
  run(tested, now, 1, us);
  EXPECT_TRUE(tested.spent());
}

TEST(slice, is_spent_when_the_task_asks_for_it) {
  slice tested(small_slices(), us);
  tested.begin(0);
  EXPECT_FALSE(tested.spent());
  tested.end_early();
  EXPECT_TRUE(tested.spent());
  EXPECT_TRUE(tested.ended_early());
  tested.begin(0);
  EXPECT_FALSE(tested.ended_early());
}

TEST(slice, reads_the_clock_after_each_task_until_tasks_are_known_to_be_short) {
  options settings = small_slices();
  settings.slice_tasks = 1'000;
  slice tested(settings, us);
  ticks now = 0;
  tested.begin(now);
  tested.begin_run(now);
  EXPECT_TRUE(tested.count_task());
  tested.note_time(now += us / 10);
  tested.end_run();

  tested.begin_run(now);
  for (unsigned i = 1; i < slice::short_tasks_per_look; ++i) {
    EXPECT_FALSE(tested.count_task());
    EXPECT_TRUE(tested.lacks_time());
  }
  EXPECT_TRUE(tested.count_task());
  EXPECT_FALSE(tested.lacks_time());
}

TEST(slice, mean_of_a_task_follows_what_tasks_take) {
  slice tested(small_slices(), us);
  EXPECT_EQ(tested.mean_task(), us);
  ticks now = 0;
  for (int i = 0; i < 100; ++i) run(tested, now, 3, 40 * us);
  EXPECT_GT(tested.mean_task(), 39 * us);
  EXPECT_LE(tested.mean_task(), 40 * us);
  tested.begin_run(now);
  EXPECT_EQ(tested.end_run(), 0U);  // nothing ran: nothing is learnt
  EXPECT_GT(tested.mean_task(), 39 * us);
}

TEST(slice, long_fraction_grows_with_long_tasks_and_goes_with_short_ones) {
  slice tested(small_slices(), us);
  EXPECT_EQ(tested.long_fraction(), 0U);
  for (int i = 0; i < 2'000; ++i) tested.note_length(51 * us);
  EXPECT_GT(tested.long_fraction(), slice::whole * 9 / 10);
  for (int i = 0; i < 2'000; ++i) tested.note_length(50 * us);
  EXPECT_LT(tested.long_fraction(), slice::whole / 25);
}

TEST(slice, tells_when_its_turn_began_and_that_its_worker_sleeps) {
  slice tested(small_slices(), us);
  EXPECT_EQ(tested.turn_began(), 0U);
  tested.begin(77);
  EXPECT_EQ(tested.turn_began(), 77U);
  tested.end_turn();
  EXPECT_EQ(tested.turn_began(), 0U);
}

}  // namespace
}  // namespace bwos
