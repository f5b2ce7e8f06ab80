// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <atomic>
#include <bwos/pool.hpp>
#include <bwos/task.hpp>
#include <bwos/ticks.hpp>
#include <memory>
#include <thread>
#include <vector>

#include "pool_fixture.hpp"

namespace bwos {
namespace {

using namespace std::chrono_literals;
using testing::eventually;
using testing::heap_call;
using testing::options_of;
using testing::parking;

/// A heap-allocated function in the lane, which frees itself.
struct long_call : continuation {
  static void post(pool& where, std::function<void()> body, ticks since = 0) {
    auto* const made = new long_call(std::move(body));
    made->place_.since = since;
    where.post_long(*made, made->place_);
  }

 private:
  explicit long_call(std::function<void()> body) : continuation(&run), body_(std::move(body)) {}
  static void run(continuation& self, disposition how) noexcept {
    const std::unique_ptr<long_call> mine(static_cast<long_call*>(&self));
    if (how == disposition::run) mine->body_();
  }
  std::function<void()> body_;
  lane_entry place_;
};

/// Nothing in it comes of age, or of the part of it after which the cap does not hold.
options patient(const parking& how, unsigned workers) {
  options result = options_of(how, workers);
  result.lane_age = 10s;
  return result;
}

std::uint64_t total(pool& of, std::uint64_t worker_statistics::* counter) {
  std::uint64_t sum = 0;
  for (const worker_statistics& each : of.statistics().workers) sum += each.*counter;
  return sum;
}

class lane_on : public ::testing::TestWithParam<parking> {};

INSTANTIATE_TEST_SUITE_P(parking, lane_on,
                         ::testing::Values(testing::on_futexes, testing::on_private_sets,
                                           testing::on_a_shared_set),
                         testing::name_of);

TEST_P(lane_on, serves_in_order) {
  pool under_test(patient(GetParam(), 1));
  std::vector<int> order;
  heap_call::post(under_test, [&] {
    for (int i = 0; i < 100; ++i) long_call::post(under_test, [&, i] { order.push_back(i); });
  });
  under_test.join();
  ASSERT_EQ(order.size(), 100U);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(order[static_cast<std::size_t>(i)], i);
}

TEST_P(lane_on, what_has_waited_longer_comes_first) {
  pool under_test(patient(GetParam(), 1));
  std::vector<unsigned> order;
  heap_call::post(under_test, [&] {
    const ticks now = now_ticks();
    for (const unsigned age : {3U, 1U, 4U, 1U, 5U, 2U}) {
      long_call::post(under_test, [&, age] { order.push_back(age); }, now - age);
    }
    long_call::post(under_test, [&] { order.push_back(0); });
  });
  under_test.join();
  EXPECT_EQ(order, (std::vector<unsigned>{5, 4, 3, 2, 1, 1, 0}));
}

/// The search for its place ends, and then an old entry is served behind younger ones, not lost.
TEST_P(lane_on, an_old_entry_behind_many_older_ones_is_served_last) {
  constexpr unsigned many = 200;
  pool under_test(patient(GetParam(), 1));
  std::vector<unsigned> order;
  heap_call::post(under_test, [&] {
    const ticks now = now_ticks();
    for (unsigned i = 0; i < many; ++i) {
      long_call::post(under_test, [&, i] { order.push_back(i); }, now - 2 * many + i);
    }
    long_call::post(under_test, [&] { order.push_back(many); });
    long_call::post(under_test, [&] { order.push_back(many + 1); }, now - many);
  });
  under_test.join();
  ASSERT_EQ(order.size(), many + 2);
  for (unsigned i = 0; i < many + 2; ++i) EXPECT_EQ(order[i], i);
}

TEST_P(lane_on, short_work_comes_first) {
  pool under_test(patient(GetParam(), 1));
  std::vector<int> order;
  heap_call::post(under_test, [&] {
    long_call::post(under_test, [&] { order.push_back(2); });
    heap_call::post(under_test, [&] { order.push_back(1); });
  });
  under_test.join();
  EXPECT_EQ(order, (std::vector{1, 2}));
}

TEST_P(lane_on, a_push_from_outside_wakes) {
  pool under_test(patient(GetParam(), 2));
  std::atomic<int> ran = 0;
  for (int i = 0; i < 20'000 / testing::sanitizer_divisor; ++i) {
    if (i % 100 == 0) {
      ASSERT_TRUE(eventually([&] { return testing::all_parked(under_test); }));
    }
    long_call::post(under_test, [&] { ++ran; });
    ASSERT_TRUE(eventually([&] { return ran == i + 1; })) << i;
  }
}

/// Tasks and threads push, workers park and wake all the time: nothing is lost or run twice.
TEST_P(lane_on, every_entry_runs_once) {
  constexpr int threads = 3;
  const int pushes = 30'000 / testing::sanitizer_divisor;
  std::vector<std::atomic<int>> runs(static_cast<std::size_t>(threads * pushes));
  options settings = options_of(GetParam(), 3);
  settings.lane_age = 50us;  // the age rule takes part
  pool under_test(settings);
  std::vector<std::thread> pushers;
  for (int t = 0; t < threads; ++t) {
    pushers.emplace_back([&, t] {
      for (int i = 0; i < pushes; ++i) {
        const auto at = static_cast<std::size_t>(t * pushes + i);
        const auto body = [&runs, at] { ++runs[at]; };
        if (i % 3 == 0) {
          long_call::post(under_test, body);
        } else {
          heap_call::post(under_test, [&under_test, body] { long_call::post(under_test, body); });
        }
        if (i % 64 == 0) std::this_thread::sleep_for(50us);
      }
    });
  }
  for (std::thread& each : pushers) each.join();
  under_test.join();
  for (std::size_t at = 0; at < runs.size(); ++at) ASSERT_EQ(runs[at], 1) << at;
  EXPECT_EQ(total(under_test, &worker_statistics::lane_run), runs.size());
}

TEST_P(lane_on, all_workers_but_one_serve_at_once) {
  for (const unsigned workers : {1U, 2U, 4U}) {
    pool under_test(patient(GetParam(), workers));
    const int cap = std::max(1, static_cast<int>(workers) - 1);
    std::atomic<int> inside = 0;
    std::atomic<int> most = 0;
    for (int i = 0; i < 24; ++i) {
      long_call::post(under_test, [&] {
        const int now = ++inside;
        int seen = most;
        while (seen < now && !most.compare_exchange_weak(seen, now)) {
        }
        EXPECT_TRUE(eventually([&] { return most >= cap; }, 100us));  // as many as may
        std::this_thread::sleep_for(1ms);                             // time for one too many
        --inside;
      });
    }
    under_test.join();
    EXPECT_EQ(most, cap) << workers;
    EXPECT_EQ(total(under_test, &worker_statistics::lane_aged), 0U);
  }
}

/// While the lane is full of long work, short work finds a free worker.
TEST_P(lane_on, short_work_does_not_wait_for_the_lane) {
  pool under_test(patient(GetParam(), 2));
  std::atomic<bool> over = false;
  std::atomic<int> in_lane = 0;
  for (int i = 0; i < 3; ++i) {
    long_call::post(under_test, [&] {
      ++in_lane;
      while (!over) std::this_thread::sleep_for(1ms);
    });
  }
  ASSERT_TRUE(eventually([&] { return in_lane == 1; }));
  std::atomic<int> ran = 0;
  for (int i = 0; i < 100; ++i) {
    heap_call::post(under_test, [&] { ++ran; });
    ASSERT_TRUE(eventually([&] { return ran == i + 1; }));
  }
  EXPECT_EQ(in_lane, 1);
  over = true;
  under_test.join();
  EXPECT_EQ(in_lane, 3);
}

/// Tasks that end within a slice: a cap would only let them wait.
TEST_P(lane_on, all_workers_serve_short_tasks) {
  options settings = patient(GetParam(), 2);
  settings.slice = 100ms;  // far more than they take
  pool under_test(settings);
  std::atomic<int> inside = 0;
  std::atomic<int> most = 0;
  std::atomic<int> ended = 0;
  const auto work = [&] {
    const int now = ++inside;
    int seen = most;
    while (seen < now && !most.compare_exchange_weak(seen, now)) {
    }
    const auto limit = std::chrono::steady_clock::now() + 5ms;
    while (most < 2 && std::chrono::steady_clock::now() < limit) std::this_thread::yield();
    --inside;
    ++ended;
  };
  int posted = 0;
  for (int round = 0; round < 100 && most < 2; ++round) {
    for (int i = 0; i < 10; ++i, ++posted) long_call::post(under_test, work);
    ASSERT_TRUE(eventually([&] { return ended == posted; }, 100us));
  }
  EXPECT_EQ(most, 2);
  EXPECT_EQ(total(under_test, &worker_statistics::lane_aged), 0U);
}

/// The first ends only when the second runs, which the cap forbids: only its age lets it. Half of
/// the times the worker that must look is asleep when the second comes.
TEST_P(lane_on, an_entry_of_age_is_served_above_the_cap) {
  options settings = options_of(GetParam(), 2);
  settings.lane_age = 16ms;  // an eighth of it
  pool under_test(settings);
  const int rounds = 200 / testing::sanitizer_divisor;
  for (int round = 0; round < rounds; ++round) {
    std::atomic<int> begun = 0;
    std::atomic<bool> second = false;
    std::atomic<int> ended = 0;
    long_call::post(under_test, [&] {
      ++begun;
      while (!second) std::this_thread::sleep_for(100us);
      ++ended;
    });
    ASSERT_TRUE(eventually([&] { return begun == 1; }));
    if (round % 2 == 0) {
      ASSERT_TRUE(eventually([&] { return under_test.core().work().idle.parked() == 1; }));
    }
    const auto pushed = std::chrono::steady_clock::now();
    long_call::post(under_test, [&] {
      EXPECT_GE(std::chrono::steady_clock::now() - pushed, 1900us);
      second = true;
      std::this_thread::sleep_for(1ms);  // longer than a slice, as the first: the cap holds
      ++ended;
    });
    ASSERT_TRUE(eventually([&] { return ended == 2; }, 100us)) << round;
  }
  EXPECT_GE(total(under_test, &worker_statistics::lane_aged), static_cast<unsigned>(rounds));
}

/// As above, but the second is pushed by the first itself, and the other worker sleeps.
TEST_P(lane_on, an_entry_pushed_by_the_only_server_comes_of_age) {
  options settings = options_of(GetParam(), 2);
  settings.lane_age = 8ms;
  pool under_test(settings);
  for (int round = 0; round < 200 / testing::sanitizer_divisor; ++round) {
    std::atomic<bool> second = false;
    std::atomic<int> ended = 0;
    long_call::post(under_test, [&] {
      const auto other_sleeps = [&] { return under_test.core().work().idle.parked() == 1; };
      EXPECT_TRUE(eventually(other_sleeps, 100us));
      long_call::post(under_test, [&] {
        second = true;
        std::this_thread::sleep_for(1ms);  // longer than a slice, as the first
        ++ended;
      });
      while (!second) std::this_thread::sleep_for(100us);
      ++ended;
    });
    ASSERT_TRUE(eventually([&] { return ended == 2; }, 100us)) << round;
  }
}

/// A worker that never runs dry serves what is of age between its slices.
TEST_P(lane_on, a_busy_pool_serves_what_is_of_age) {
  options settings = options_of(GetParam(), 1);
  settings.lane_age = 1ms;
  pool under_test(settings);
  std::atomic<bool> served = false;
  std::function<void()> again = [&] {
    testing::spin_for(20us);
    if (!served) heap_call::post(under_test, again);
  };
  for (int i = 0; i < 8; ++i) heap_call::post(under_test, again);
  long_call::post(under_test, [&] { served = true; });
  EXPECT_TRUE(eventually([&] { return served.load(); }, 1ms));
  under_test.join();
}

task<void> push_and_be_busy(pool& where, std::atomic<bool>& served) {
  long_call::post(where, [&] { served = true; });
  while (!served) co_await where.yield();
}

/// The pusher always has something short to do, and gives nobody a reason to wake but the lane.
TEST_P(lane_on, a_busy_worker_wakes_another_for_the_lane) {
  pool under_test(patient(GetParam(), 2));
  for (int round = 0; round < 200 / testing::sanitizer_divisor; ++round) {
    ASSERT_TRUE(eventually([&] { return testing::all_parked(under_test); }));
    std::atomic<bool> served = false;
    spawn(under_test, push_and_be_busy(under_test, served));
    ASSERT_TRUE(eventually([&] { return served.load(); }, 100us)) << round;
    ASSERT_TRUE(eventually([&] { return testing::all_parked(under_test); }));
  }
}

/// What a long task leaves in the lane is for whoever sleeps, not only for itself.
TEST_P(lane_on, a_long_task_that_pushes_two_wakes_another) {
  pool under_test(patient(GetParam(), 3));
  for (int round = 0; round < 500 / testing::sanitizer_divisor; ++round) {
    ASSERT_TRUE(eventually([&] { return testing::all_parked(under_test); }));
    std::atomic<int> ran = 0;
    std::atomic<bool> left = false;
    heap_call::post(under_test, [&] {
      for (int i = 0; i < 2; ++i) long_call::post(under_test, [&] { ++ran; });
      EXPECT_TRUE(eventually([&] { return ran == 2; }, 100us)) << round;
      left = true;
    });
    ASSERT_TRUE(eventually([&] { return left.load(); }, 100us));
  }
}

TEST_P(lane_on, stop_discards_what_is_left) {
  struct counted : continuation {
    counted() noexcept : continuation(&end) {}
    static void end(continuation& self, disposition how) noexcept {
      auto& mine = static_cast<counted&>(self);
      ++(how == disposition::run ? mine.runs : mine.discards);
    }
    int runs = 0;
    int discards = 0;
    lane_entry place;
  } entries[5];
  {
    pool under_test(patient(GetParam(), 1));
    std::atomic<bool> inside = false;
    heap_call::post(under_test, [&] {
      inside = true;
      for (counted& each : entries) under_test.post_long(each, each.place);
      under_test.stop();
    });
    ASSERT_TRUE(eventually([&] { return inside.load(); }));
  }
  for (const counted& each : entries) {
    EXPECT_EQ(each.runs, 0);
    EXPECT_EQ(each.discards, 1);
  }
}

task<void> in_and_out(pool& where, std::atomic<int>& steps) {
  ++steps;
  co_await where.lane();
  EXPECT_TRUE(where.running_here());
  ++steps;
  co_await where.lane();
  ++steps;
}

TEST_P(lane_on, coroutines_go_through_it) {
  pool under_test(patient(GetParam(), 2));
  std::atomic<int> steps = 0;
  for (int i = 0; i < 1000; ++i) spawn(under_test, in_and_out(under_test, steps));
  under_test.join();
  EXPECT_EQ(steps, 3000);
  EXPECT_EQ(total(under_test, &worker_statistics::lane_run), 2000U);
  EXPECT_EQ(under_test.statistics().lane_depth, 0U);
}

TEST(lane_alone, a_coroutine_that_waits_in_it_is_freed_with_the_pool) {
  const auto witness = std::make_shared<int>(0);
  {
    pool under_test(patient(testing::on_futexes, 1));
    std::atomic<bool> waits = false;
    heap_call::post(under_test, [&] {
      // The parameter, copied into the frame, lives as long as that.
      detach([](pool& where, std::shared_ptr<int>) -> task<void> {
        co_await where.lane();
        ADD_FAILURE() << "the pool had stopped";
      }(under_test, witness));
      under_test.stop();
      waits = true;
    });
    ASSERT_TRUE(eventually([&] { return waits.load(); }));
  }
  EXPECT_EQ(witness.use_count(), 1);
}

TEST(lane_alone, the_age_has_a_range) {
  options settings = options_of(testing::on_futexes, 1);
  settings.lane_age = 0us;
  EXPECT_THROW(pool{settings}, std::invalid_argument);
  settings.lane_age = 11s;
  EXPECT_THROW(pool{settings}, std::invalid_argument);
}

}  // namespace
}  // namespace bwos
