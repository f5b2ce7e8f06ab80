// SPDX-License-Identifier: Apache-2.0
#include "scheduler/search.hpp"

#include <gtest/gtest.h>

#include <array>
#include <memory>

#include "scheduler/scheduler.hpp"
#include "scheduler/worker.hpp"
#include "steal/topology.hpp"

namespace bwos {
namespace {

struct task : continuation {
  task() noexcept : continuation([](continuation&, disposition) noexcept {}) {}
};

/// Workers without threads: the test is each of them in turn.
class searching : public ::testing::Test {
 protected:
  explicit searching(unsigned workers = 3, steal_kind steal = steal_kind::random,
                     steal_amount takes = steal_amount::batch) {
    settings.workers = workers;
    settings.steal = steal;
    settings.steal_takes = takes;
    all = std::make_unique<scheduler>(settings, std::vector<reactor*>());
    for (unsigned i = 0; i < workers; ++i)
      all->install(i, std::make_unique<worker>(*all, i, nullptr, nullptr, nullptr));
    all->publish(workers);
  }
  void give(unsigned to, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) all->slot(to).post(tasks[next++], wake_rule::earned);
  }
  ~searching() override {
    continuation_chain rest;
    all->drain(rest);
  }

  options settings;
  std::unique_ptr<scheduler> all;
  std::array<task, 1'000> tasks;
  std::size_t next = 0;
  worker_counters counters;
};

class searching_alone : public searching {
 protected:
  searching_alone() : searching(1) {}
};
class searching_near_and_for_blocks : public searching {
 protected:
  searching_near_and_for_blocks() : searching(3, steal_kind::topology, steal_amount::block) {}
};
class searching_for_halves : public searching {
 protected:
  searching_for_halves() : searching(3, steal_kind::sequential, steal_amount::half) {}
};
class searching_without_stealing : public searching {
 protected:
  searching_without_stealing() : searching(3, steal_kind::none) {}
};

TEST_F(searching, counts_its_worker_as_a_searcher_from_its_beginning_to_its_end) {
  search tested(*all, 0, 0, counters);
  EXPECT_FALSE(tested.is_on());
  EXPECT_TRUE(tested.begin());
  EXPECT_TRUE(tested.begin());  // it goes on
  EXPECT_EQ(all->idle.searching(), 1U);
  EXPECT_FALSE(tested.end());
  EXPECT_EQ(all->idle.searching(), 0U);
}

TEST_F(searching, the_last_to_end_must_look_if_somebody_sleeps) {
  search tested(*all, 0, 0, counters);
  ASSERT_TRUE(tested.begin());
  all->idle.announce(0, 1, false);
  EXPECT_TRUE(tested.end());
  EXPECT_FALSE(tested.end());  // it is over
}

TEST_F(searching, its_look_passes_over_who_is_parked) {
  search tested(*all, 0, 0, counters);
  give(1, 3);
  all->idle.announce(0, 1, false);
  EXPECT_FALSE(tested.look().any);  // it is awake again before it runs them, and decides then
  static_cast<void>(all->idle.leave(0, 1, false));
  EXPECT_TRUE(tested.look().any);
}

TEST_F(searching, one_that_parked_and_stayed_awake_owes_the_look_of_its_end) {
  search tested(*all, 0, 0, counters);
  all->idle.announce(0, 1, false);  // another sleeps
  ASSERT_TRUE(tested.begin());
  all->idle.announce(0, 0, tested.give_up());
  tested.claimed(all->idle.leave(0, 0, false));  // its last look has found something
  EXPECT_FALSE(tested.is_on());
  EXPECT_TRUE(tested.end());
  EXPECT_FALSE(tested.end());  // once

  ASSERT_TRUE(tested.begin());
  all->idle.announce(0, 0, tested.give_up());
  tested.looked_everywhere();  // there was nothing: no debt
  tested.claimed(all->idle.leave(0, 0, false));
  EXPECT_FALSE(tested.end());
}

TEST_F(searching, is_refused_while_enough_workers_search) {
  search first(*all, 0, 0, counters);
  search second(*all, 1, 0, counters);
  EXPECT_TRUE(first.begin());  // of three workers one may search
  EXPECT_FALSE(second.begin());
  EXPECT_FALSE(second.is_on());
  static_cast<void>(first.end());
  EXPECT_TRUE(second.begin());
  static_cast<void>(second.end());
}

TEST_F(searching, one_that_a_poster_claimed_is_a_search) {
  search tested(*all, 0, 0, counters);
  all->idle.announce(0, 0, tested.give_up());
  ASSERT_TRUE(all->idle.claim(0).claimed);
  tested.claimed(all->idle.leave(0, 0, false));
  EXPECT_TRUE(tested.is_on());
  static_cast<void>(tested.end());
  EXPECT_EQ(all->idle.searching(), 0U);
}

TEST_F(searching, finds_the_only_task_there_is_by_looking_everywhere) {
  give(2, 1);
  search tested(*all, 0, 0, counters);
  const search::sighting seen = tested.look();
  ASSERT_TRUE(seen.any);
  EXPECT_EQ(seen.victim, 2U);
  EXPECT_FALSE(seen.more);
  const auto stolen = tested.steal(seen);
  ASSERT_EQ(stolen.size(), 1U);
  EXPECT_EQ(stolen[0], &tasks[0]);
  EXPECT_EQ(tested.take_gave(), found::one);
  EXPECT_FALSE(tested.look().any);
  EXPECT_TRUE(tested.steal(seen).empty());  // somebody was faster
}

TEST_F(searching, sees_that_there_is_more_than_it_takes) {
  give(1, 1);
  give(2, 1);
  search tested(*all, 0, 0, counters);
  const search::sighting seen = tested.look();
  EXPECT_TRUE(seen.any);
  EXPECT_TRUE(seen.more);
  EXPECT_EQ(tested.steal(seen).size(), 1U);
  EXPECT_EQ(tested.take_gave(), found::more);
  EXPECT_EQ(tested.take_gave(), found::nothing);  // told once
}

TEST_F(searching, takes_no_more_than_a_batch_and_the_oldest_of_a_block) {
  give(1, 40);
  search tested(*all, 0, 0, counters);
  const auto stolen = tested.steal(tested.look());
  ASSERT_EQ(stolen.size(), settings.steal_batch);
  for (std::size_t i = 0; i < stolen.size(); ++i) EXPECT_EQ(stolen[i], &tasks[i]);
  EXPECT_EQ(tested.take_gave(), found::more);
}

TEST_F(searching, never_sees_its_own_work) {
  give(0, 5);
  search tested(*all, 0, 0, counters);
  EXPECT_FALSE(tested.look().any);
  ASSERT_TRUE(tested.begin());
  EXPECT_TRUE(tested.steal().empty());
  static_cast<void>(tested.end());
}

TEST_F(searching, takes_every_task_of_the_others_once) {
  give(1, 200);
  give(2, 300);
  search tested(*all, 0, 0, counters);
  ASSERT_TRUE(tested.begin());
  std::size_t taken = 0;
  std::array<int, 1'000> times{};
  for (int dry = 0; dry < 10'000 && taken < 500; ++dry) {
    for (const continuation* const each : tested.steal()) {
      ++times[static_cast<std::size_t>(static_cast<const task*>(each) - tasks.data())];
      ++taken;
    }
  }
  EXPECT_EQ(taken, 500U);
  for (std::size_t i = 0; i < 500; ++i) EXPECT_EQ(times[i], 1);
  static_cast<void>(tested.end());
  EXPECT_EQ(counters.steal_entries.get(), 500U);
}

TEST_F(searching_near_and_for_blocks, takes_a_block_of_the_nearest_first) {
  give(1, 64);
  give(2, 64);
  search tested(*all, 0, 0, counters);
  ASSERT_NE(all->places, nullptr);
  for (const unsigned worker : {0U, 2U}) all->places->put(worker, 5);
  all->places->put(1, ~0U);  // nobody knows where
  ASSERT_TRUE(tested.begin());
  const auto stolen = tested.steal();
  ASSERT_EQ(stolen.size(), 64U);
  EXPECT_EQ(stolen[0], &tasks[64]);
  EXPECT_EQ(tested.steal(tested.look()).size(), 64U);
  EXPECT_TRUE(tested.steal().empty());
  static_cast<void>(tested.end());
}

TEST_F(searching_for_halves, takes_half_of_what_it_sights_too) {
  give(1, 40);
  search tested(*all, 0, 0, counters);
  ASSERT_TRUE(tested.begin());
  EXPECT_EQ(tested.steal().size(), 20U);
  EXPECT_EQ(tested.steal(tested.look()).size(), 10U);
  EXPECT_EQ(tested.take_gave(), found::more);
  static_cast<void>(tested.end());
}

TEST_F(searching, by_random_victims_knows_no_places) {
  EXPECT_EQ(all->places, nullptr);
}

TEST_F(searching_alone, does_not_begin) {
  search tested(*all, 0, 0, counters);
  EXPECT_FALSE(tested.begin());
  EXPECT_FALSE(tested.look().any);
}

TEST_F(searching_without_stealing, does_not_begin_and_sees_nothing) {
  give(1, 5);
  search tested(*all, 0, 0, counters);
  EXPECT_FALSE(tested.begin());
  EXPECT_FALSE(tested.look().any);
}

}  // namespace
}  // namespace bwos
