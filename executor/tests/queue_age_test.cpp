// SPDX-License-Identifier: Apache-2.0
// The age of what is ready is measured: it rises while work waits behind work, and falls again.
#include <gtest/gtest.h>

#include <atomic>
#include <bwos/pool.hpp>
#include <thread>

#include "pool_fixture.hpp"

namespace bwos {
namespace {

using namespace std::chrono_literals;
using testing::call;
using testing::eventually;
using clock = std::chrono::steady_clock;

/// Keeps a worker inside a task while `hold` is true. Outlives its pool.
struct blocker : call {
  blocker()
      : call([this] {
          held = true;
          while (hold) std::this_thread::sleep_for(1ms);
        }) {}
  std::atomic<bool> hold = true;
  std::atomic<bool> held = false;
};

constexpr testing::parking on_rings{"io_uring", reactor_kind::io_uring, 1};

class queue_age_on : public ::testing::TestWithParam<testing::parking> {
 protected:
  static options measured(unsigned workers) {
    options result = testing::options_of(GetParam(), workers);
    result.queue_age_interval = 10ms;
    return result;
  }
};

INSTANTIATE_TEST_SUITE_P(parking, queue_age_on,
                         ::testing::Values(testing::on_private_sets, testing::on_a_shared_set,
                                           on_rings),
                         testing::name_of);

TEST_P(queue_age_on, is_how_long_ready_work_waits_and_falls_when_it_does_not) {
  pool under_test(measured(1));
  std::atomic<bool> hold = true;
  std::atomic<int> from_inside_ms = 0;
  call blocks([&] {
    while (hold) std::this_thread::sleep_for(1ms);
    from_inside_ms = static_cast<int>(under_test.queue_age(clock::now()).count());
  });
  under_test.post(blocks);
  // Not run yet, the timer's lateness is seen all the same, from outside and on the worker.
  ASSERT_TRUE(eventually([&] { return under_test.queue_age(clock::now()) > 200ms; }, 1ms));
  hold = false;
  ASSERT_TRUE(eventually([&] { return under_test.queue_age(clock::now()) < 50ms; }, 1ms));
  EXPECT_GT(from_inside_ms, 200);
}

TEST_P(queue_age_on, counts_what_waits_in_the_workers_queue) {
  pool under_test(measured(1));
  // Each takes no longer than 20 ms, and the reactor is looked at between any two; behind them all
  // stands a second.
  std::atomic<int> left = 50;
  std::atomic<std::int64_t> most_ms = 0;
  const auto body = [&] {
    testing::spin_for(20ms);
    most_ms = std::max<std::int64_t>(most_ms, under_test.queue_age(clock::now()).count());
    --left;
  };
  std::vector<std::unique_ptr<call>> all;
  for (int i = 0; i < 50; ++i) all.push_back(std::make_unique<call>(body));
  call starts([&] {
    for (const auto& each : all) under_test.post(*each);
  });
  under_test.post(starts);
  ASSERT_TRUE(eventually([&] { return left == 0; }, 1ms));
  EXPECT_GT(most_ms, 300);
}

TEST_P(queue_age_on, is_each_reactors_own_where_nobody_steals) {
  if (GetParam().group != 1) GTEST_SKIP() << "a shared set has one";
  options settings = measured(2);
  settings.steal = steal_kind::none;
  blocker blocks;
  pool under_test(settings);
  under_test.post(blocks);
  ASSERT_TRUE(eventually([&] { return blocks.held.load(); }, 1ms));
  ASSERT_TRUE(eventually([&] { return under_test.queue_age(clock::now()) > 300ms; }, 1ms));
  std::atomic<std::int64_t> free_ms = -1;
  call asks([&] { free_ms = under_test.queue_age(clock::now()).count(); });
  const auto ask = [&] {
    free_ms = -1;
    under_test.post(asks);
    return eventually([&] { return free_ms >= 0; }, 1ms) && free_ms < 200;
  };
  EXPECT_TRUE(eventually(ask, 10ms));  // on the worker that is free
  EXPECT_GT(under_test.queue_age(clock::now()), 300ms);
  blocks.hold = false;
}

TEST_P(queue_age_on, is_zero_unless_asked_for) {
  options settings = measured(1);
  settings.queue_age_interval = 0ms;
  pool under_test(settings);
  std::atomic<bool> done = false;
  call blocks([&] {
    std::this_thread::sleep_for(100ms);
    done = true;
  });
  under_test.post(blocks);
  while (!done) EXPECT_EQ(under_test.queue_age(clock::now()), 0ms);
}

TEST_P(queue_age_on, keeps_no_pool_from_ending) {
  for (int i = 0; i < 20; ++i) {
    options settings = measured(2);
    settings.queue_age_interval = 1ms;
    pool under_test(settings);
    std::this_thread::sleep_for(std::chrono::milliseconds(i % 4));
    under_test.join();  // waits until all of its workers sleep
  }
}

TEST(queue_age, a_pool_without_reactors_has_none) {
  options settings;
  settings.workers = 1;
  settings.queue_age_interval = 1ms;
  pool under_test(settings);
  std::this_thread::sleep_for(20ms);
  EXPECT_EQ(under_test.queue_age(clock::now()), 0ms);
}

TEST(lane_age, is_the_oldest_entrys) {
  options settings;
  settings.workers = 1;
  blocker blocks;
  pool under_test(settings);
  EXPECT_EQ(under_test.lane_age(), 0us);
  under_test.post(blocks);
  ASSERT_TRUE(eventually([&] { return blocks.held.load(); }, 1ms));
  call waits([] {});
  lane_entry place;
  const auto begun = clock::now();
  under_test.post_long(waits, place);
  std::this_thread::sleep_for(50ms);
  const auto age = under_test.lane_age();
  EXPECT_LE(age, (clock::now() - begun) * 11 / 10);  // the rate of the counter is a measured one
  EXPECT_GT(age, 40ms);
  blocks.hold = false;
  EXPECT_TRUE(eventually([&] { return under_test.lane_age() == 0us; }, 1ms));
}

}  // namespace
}  // namespace bwos
