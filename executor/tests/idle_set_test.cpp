// SPDX-License-Identifier: Apache-2.0
#include "scheduler/idle_set.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "base/futex_parker.hpp"

namespace bwos {
namespace {

TEST(idle_set, claims_nobody_while_all_are_awake) {
  idle_set named(idle_set::form::named, 1, 1);
  EXPECT_FALSE(named.claim(0).claimed);
  EXPECT_FALSE(named.may_claim());
}

TEST(idle_set, claims_a_sleeper_once_and_makes_it_a_searcher) {
  idle_set named(idle_set::form::named, 2, 1);
  named.announce(1, 5, false);
  EXPECT_EQ(named.parked(), 1U);
  const idle_set::claim_result claim = named.claim(0);
  EXPECT_TRUE(claim.claimed);
  EXPECT_EQ(claim.word, 1U);
  EXPECT_EQ(claim.bit, 5U);
  EXPECT_EQ(named.searching(), 1U);
  EXPECT_FALSE(named.claim(0).claimed);
  EXPECT_TRUE(named.leave(1, 5, false));
  EXPECT_TRUE(named.end_search(1));
  EXPECT_EQ(named.searching(), 0U);
}

TEST(idle_set, who_sleeps_or_searches_is_idle) {
  for (const auto form : {idle_set::form::named, idle_set::form::counted}) {
    idle_set set(form, 2, 1);
    EXPECT_FALSE(set.any_idle());
    set.announce(1, 3, false);
    EXPECT_TRUE(set.any_idle());
    EXPECT_TRUE(set.claim(1).claimed);  // it is on its way
    EXPECT_TRUE(set.any_idle());
    EXPECT_TRUE(set.leave(1, 3, true));
    EXPECT_TRUE(set.any_idle());  // it searches
    EXPECT_TRUE(set.end_search(1));
    EXPECT_FALSE(set.any_idle());
  }
}

TEST(idle_set, a_worker_that_wakes_by_itself_is_no_searcher) {
  for (const auto form : {idle_set::form::named, idle_set::form::counted}) {
    idle_set set(form, 1, 1);
    set.announce(0, 3, false);
    EXPECT_FALSE(set.leave(0, 3, false));
    EXPECT_EQ(set.parked(), 0U);
    EXPECT_EQ(set.searching(), 0U);
  }
}

TEST(idle_set, a_searcher_excuses_its_word_and_no_other) {
  idle_set named(idle_set::form::named, 2, 1);
  named.announce(0, 0, false);
  named.announce(1, 0, false);
  EXPECT_TRUE(named.begin_search(0));
  EXPECT_TRUE(named.may_claim());
  const idle_set::claim_result claim = named.claim(0);
  EXPECT_TRUE(claim.claimed);
  EXPECT_EQ(claim.word, 1U);
  EXPECT_FALSE(named.may_claim());
}

TEST(idle_set, only_so_many_search_of_their_own_accord) {
  idle_set named(idle_set::form::named, 1, 2);
  EXPECT_TRUE(named.begin_search(0));
  EXPECT_TRUE(named.begin_search(0));
  EXPECT_FALSE(named.begin_search(0));
  EXPECT_FALSE(named.end_search(0));
  EXPECT_TRUE(named.end_search(0));
  EXPECT_EQ(named.searching(), 0U);
}

TEST(idle_set, counts_of_a_group_stay_exact_whoever_takes_the_token) {
  idle_set counted(idle_set::form::counted, 1, 1);
  counted.announce(0, 0, false);
  counted.announce(0, 1, false);
  ASSERT_TRUE(counted.claim(0).claimed);     // P 1, C 1
  EXPECT_FALSE(counted.leave(0, 0, false));  // returned for an event: takes P
  EXPECT_EQ(counted.parked(), 0U);
  EXPECT_TRUE(counted.leave(0, 1, false));  // none parked: it is the claimed one, token or not
  EXPECT_EQ(counted.searching(), 1U);
  EXPECT_TRUE(counted.end_search(0));
  counted.announce(0, 0, false);
  EXPECT_FALSE(counted.leave(0, 0, true));  // a stale token
  EXPECT_EQ(counted.parked(), 0U);
}

TEST(futex_parker, a_wake_before_the_sleep_is_kept) {
  futex_parker parker;
  parker.wake();
  parker.wait(-1);
}

TEST(futex_parker, sleeps_no_longer_than_its_limit) {
  futex_parker parker;
  const auto start = std::chrono::steady_clock::now();
  parker.wait(20);
  EXPECT_GE(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(19));
}

TEST(futex_parker, wakes_across_threads_a_hundred_thousand_times) {
  constexpr int rounds = 100'000;
  futex_parker there;
  futex_parker back;
  std::atomic<int> seen = 0;
  std::thread other([&] {
    for (int i = 0; i < rounds; ++i) {
      while (seen.load() <= i) there.wait(-1);
      back.wake();
    }
  });
  for (int i = 0; i < rounds; ++i) {
    seen.store(i + 1);
    there.wake();
    if (i % 2 == 0) back.wait(1000);
  }
  other.join();
  EXPECT_EQ(seen, rounds);
}

}  // namespace
}  // namespace bwos
