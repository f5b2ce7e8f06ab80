// SPDX-License-Identifier: Apache-2.0
#include "scheduler/wake_policy.hpp"

#include <gtest/gtest.h>

namespace bwos {
namespace {

constexpr ticks us = 1'000;

wake_reason why(const wake_situation& now) {
  return why_wake(now, us);
}

TEST(wake_policy, a_worker_with_one_task_wakes_nobody) {
  EXPECT_EQ(why({}), wake_reason::none);
  EXPECT_EQ(why({.mean_task = 1'000 * us}), wake_reason::none);
}

TEST(wake_policy, a_backlog_is_worth_a_wake_up_when_its_owner_will_not_soon_reach_its_end) {
  EXPECT_EQ(why({.backlog = 6, .mean_task = 5 * us, .has_successor = true}), wake_reason::none);
  EXPECT_EQ(why({.backlog = 7, .mean_task = 5 * us, .has_successor = true}), wake_reason::backlog);
  EXPECT_EQ(why({.backlog = 1, .mean_task = 31 * us, .has_successor = true}), wake_reason::backlog);
}

TEST(wake_policy, what_thieves_cannot_take_wakes_nobody) {
  EXPECT_EQ(why({.backlog = 100, .mean_task = 50 * us, .has_successor = false}), wake_reason::none);
}

TEST(wake_policy, one_posted_task_is_its_posters_and_two_are_a_backlog) {
  EXPECT_EQ(why({.backlog = 1, .mean_task = 30 * us, .posted = 1}), wake_reason::none);
  EXPECT_EQ(why({.backlog = 2, .posted = 2}), wake_reason::posts);
  EXPECT_EQ(why({.backlog = 2, .has_successor = true, .posted = 1}), wake_reason::posts);
}

TEST(wake_policy, one_that_a_coarse_task_posts_is_worth_it) {
  EXPECT_EQ(why({.backlog = 1, .mean_task = 31 * us, .posted = 1}), wake_reason::posts);
}

TEST(wake_policy, a_poster_gets_the_wake_up_that_it_asks_for) {
  EXPECT_EQ(why({.backlog = 1, .posted = 1, .asked = true}), wake_reason::asked);
}

TEST(wake_policy, an_open_lane_is_always_worth_it) {
  EXPECT_EQ(why({.lane_open = true}), wake_reason::lane);
}

TEST(wake_policy, a_search_that_showed_more_than_it_gave_is_worth_another) {
  EXPECT_EQ(why({.gave = found::one}), wake_reason::none);
  EXPECT_EQ(why({.gave = found::more}), wake_reason::found);
}

TEST(wake_policy, the_last_searcher_wakes_another_for_what_it_saw) {
  EXPECT_EQ(why({.others_have_work = true}), wake_reason::excused);
}

}  // namespace
}  // namespace bwos
