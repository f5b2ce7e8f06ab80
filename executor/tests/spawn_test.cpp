// SPDX-License-Identifier: Apache-2.0
// Tasks on a real pool: spawn(), schedule(), yield(), and what happens to them when the pool ends.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <vector>

#include <bwos/pool.hpp>
#include <bwos/task.hpp>
#include <bwos/timer.hpp>

#include "pool_fixture.hpp"

namespace bwos {
namespace {

using testing::options_of;
using testing::parking;

/// Counts how many of its kind are alive: what a frame that is freed must give back.
struct counted {
  explicit counted(std::atomic<int>& count) : alive(count) { ++alive; }
  counted(const counted& other) : alive(other.alive) { ++alive; }
  counted& operator=(const counted&) = delete;
  ~counted() { --alive; }
  std::atomic<int>& alive;
};

class spawn_on : public ::testing::TestWithParam<parking> {};

INSTANTIATE_TEST_SUITE_P(parking, spawn_on,
                         ::testing::Values(testing::on_futexes, testing::on_private_sets,
                                           testing::on_a_shared_set),
                         testing::name_of);

TEST_P(spawn_on, join_waits_for_spawned_tasks_and_their_children) {
  constexpr int tasks = 200;
  constexpr int hops = 50;
  std::atomic<std::int64_t> sum = 0;
  pool under_test(options_of(GetParam(), 3));
  auto leaf = [&](int i) -> task<int> {
    co_await under_test.schedule();
    if (i % 7 == 0) co_await under_test.yield();
    EXPECT_TRUE(under_test.running_here());
    co_return i;
  };
  auto body = [&]() -> task<> {
    std::int64_t own = 0;  // plain: moves between workers with the coroutine
    for (int i = 0; i < hops; ++i) own += co_await leaf(i);
    sum += own;
  };
  for (int i = 0; i < tasks; ++i) spawn(under_test, body());
  under_test.join();
  EXPECT_EQ(sum, std::int64_t{tasks} * hops * (hops - 1) / 2);
}

TEST_P(spawn_on, tasks_spawn_tasks_from_within) {
  std::atomic<int> ran = 0;
  pool under_test(options_of(GetParam(), 2));
  auto tree = [&](int depth, auto& self) -> task<> {
    ++ran;
    for (int i = 0; depth > 0 && i < 2; ++i) spawn(under_test, self(depth - 1, self));
    co_return;
  };
  spawn(under_test, tree(10, tree));
  under_test.join();
  EXPECT_EQ(ran, 2047);
}

TEST_P(spawn_on, an_ended_pool_frees_tasks_that_never_ran_or_stopped_on_the_way) {
  for (int round = 0; round < 100 / testing::sanitizer_divisor; ++round) {
    std::atomic<int> alive = 0;
    std::atomic<int> steps = 0;
    {
      pool under_test(options_of(GetParam(), 2));
      auto leaf = [&](counted) -> task<> {
        ++steps;
        co_await under_test.schedule();
      };
      auto body = [&](counted kept) -> task<> {
        for (;;) co_await leaf(kept);  // ends: the pool does
      };
      for (int i = 0; i < 50; ++i) spawn(under_test, body(counted(alive)));
      ASSERT_TRUE(testing::eventually([&] { return steps > 100; }));
      under_test.stop();
      for (int i = 0; i < 50; ++i) spawn(under_test, body(counted(alive)));
    }
    ASSERT_EQ(alive, 0);
  }
}

TEST_P(spawn_on, an_ended_pool_frees_tasks_that_wait_for_a_timer) {
  std::atomic<int> alive = 0;
  std::atomic<int> waiting = 0;
  bool went_on = false;
  {
    pool under_test(options_of(GetParam(), 2));
    auto leaf = [&](counted) -> task<> {
      ++waiting;
      co_await sleep_for(std::chrono::hours(24));
      went_on = true;
    };
    auto body = [&](counted kept) -> task<> { co_await leaf(kept); };
    for (int i = 0; i < 50; ++i) spawn(under_test, body(counted(alive)));
    ASSERT_TRUE(testing::eventually([&] { return waiting == 50; }));
    under_test.stop();
  }
  EXPECT_EQ(alive, 0);
  EXPECT_FALSE(went_on);
}

TEST_P(spawn_on, a_timer_never_fires_early) {
  std::atomic<int> early = 0;
  pool under_test(options_of(GetParam(), 2));
  auto body = [&](int i) -> task<> {
    for (int k = 0; k < 5; ++k) {
      const auto until =
          std::chrono::steady_clock::now() + std::chrono::microseconds(i * 137 % 9000);
      co_await sleep_until(until);
      early += std::chrono::steady_clock::now() < until;
    }
  };
  for (int i = 0; i < 200; ++i) spawn(under_test, body(i));
  under_test.join();
  EXPECT_EQ(early, 0);
}

}  // namespace
}  // namespace bwos
