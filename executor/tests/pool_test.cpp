// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <atomic>
#include <bwos/pool.hpp>
#include <bwos/task.hpp>
#include <bwos/timer.hpp>
#include <filesystem>
#include <fstream>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "pool_fixture.hpp"

namespace bwos {
namespace {

using namespace std::chrono_literals;
using testing::call;
using testing::eventually;
using testing::heap_call;
using testing::options_of;
using testing::parking;

class pool_on : public ::testing::TestWithParam<parking> {};

INSTANTIATE_TEST_SUITE_P(parking, pool_on,
                         ::testing::Values(testing::on_futexes, testing::on_private_sets,
                                           testing::on_a_shared_set),
                         testing::name_of);

TEST_P(pool_on, join_runs_all_that_was_posted_from_outside) {
  for (int round = 0; round < 100 / testing::sanitizer_divisor; ++round) {
    std::atomic<int> ran = 0;
    pool under_test(options_of(GetParam(), 3));
    for (int i = 0; i < 1000; ++i) heap_call::post(under_test, [&] { ++ran; });
    under_test.join();
    ASSERT_EQ(ran, 1000);
  }
}

TEST_P(pool_on, join_waits_for_what_tasks_post) {
  for (int round = 0; round < 50 / testing::sanitizer_divisor; ++round) {
    std::atomic<int> ran = 0;
    pool under_test(options_of(GetParam(), 4));
    std::function<void(int)> tree = [&](int depth) {
      ++ran;
      if (depth == 0) return;
      heap_call::post(under_test, [&, depth] { tree(depth - 1); });
      heap_call::post(under_test, [&, depth] { tree(depth - 1); });
    };
    heap_call::post(under_test, [&] { tree(10); });
    under_test.join();
    ASSERT_EQ(ran, 2047);
  }
}

TEST_P(pool_on, stop_under_load_runs_or_discards_everything_once) {
  for (int round = 0; round < 50 / testing::sanitizer_divisor; ++round) {
    std::vector<std::unique_ptr<call>> work;
    for (int i = 0; i < 5000; ++i) work.push_back(std::make_unique<call>([] {}));
    {
      pool under_test(options_of(GetParam(), 2));
      std::thread other([&] {
        for (int i = 0; i < 2500; ++i) under_test.post(*work[static_cast<std::size_t>(i)]);
      });
      for (int i = 2500; i < 5000; ++i) under_test.post(*work[static_cast<std::size_t>(i)]);
      under_test.stop();
      under_test.join();
      other.join();
    }
    for (const auto& each : work) ASSERT_EQ(each->runs + each->discards, 1);
  }
}

TEST_P(pool_on, join_waits_for_work_that_is_not_queued) {
  pool under_test(options_of(GetParam(), 2));
  std::atomic<bool> finished = false;
  under_test.work_started();
  std::thread later([&] {
    std::this_thread::sleep_for(50ms);
    finished = true;
    under_test.work_finished();
  });
  under_test.join();
  EXPECT_TRUE(finished);
  later.join();
}

TEST_P(pool_on, posts_of_one_worker_run_in_order) {
  pool under_test(options_of(GetParam(), 1));
  std::vector<int> order;
  heap_call::post(under_test, [&] {
    for (int i = 0; i < 10'000; ++i) heap_call::post(under_test, [&, i] { order.push_back(i); });
  });
  under_test.join();
  ASSERT_EQ(order.size(), 10'000U);
  // More than the queue holds: what was spilled is overtaken by what was put later, but keeps its
  // own order. Each spill moves one block and the task that did not fit.
  std::vector<bool> seen(10'000);
  for (const int i : order) seen[static_cast<std::size_t>(i)] = true;
  EXPECT_EQ(std::count(seen.begin(), seen.end(), true), 10'000);
}

TEST_P(pool_on, statistics_tell_what_others_could_steal) {
  pool under_test(options_of(GetParam(), 1));
  std::vector<std::uint64_t> seen;
  heap_call::post(under_test, [&] {
    for (int i = 0; i < 3; ++i) heap_call::post(under_test, [] {});
    seen = under_test.statistics().stealable;
  });
  under_test.join();
  EXPECT_EQ(seen, std::vector<std::uint64_t>{3});
  EXPECT_EQ(under_test.statistics().stealable, std::vector<std::uint64_t>{0});
}

TEST_P(pool_on, a_full_queue_spills_in_order) {
  constexpr int extra = 1000;
  constexpr int count = static_cast<int>(worker_queue::capacity) + extra;
  pool under_test(options_of(GetParam(), 1));
  std::vector<int> order;
  heap_call::post(under_test, [&] {
    for (int i = 0; i < count; ++i) heap_call::post(under_test, [&, i] { order.push_back(i); });
  });
  under_test.join();
  const pool_statistics counters = under_test.statistics();
  ASSERT_EQ(order.size(), static_cast<std::size_t>(count));
  EXPECT_GT(counters.workers[0].queue_full, 0U);
  EXPECT_GT(counters.workers[0].spill, counters.workers[0].queue_full);
  // A queue of two blocks has no room to take back what it spilled without spilling anew.
  if (worker_queue::block_count == 2) return;
  // Spilled were the oldest of each moment and the task that did not fit; all of both keep their
  // order among themselves, as do those that stayed. So the sequence is a merge of three ascending
  // ones.
  int descents = 0;
  std::vector<int> last(3, -1);
  for (const int i : order) {
    auto* best = static_cast<int*>(nullptr);
    for (int& each : last) {
      if (each < i && (best == nullptr || each > *best)) best = &each;
    }
    if (best == nullptr) {
      ++descents;
    } else {
      *best = i;
    }
  }
  EXPECT_EQ(descents, 0);
}

TEST_P(pool_on, fork_style_posting_never_parks_on_work) {
  for (int round = 0; round < 20; ++round) {
    std::atomic<int> ran = 0;
    pool under_test(options_of(GetParam(), 2));
    std::function<void(int)> fork = [&](int depth) {
      ++ran;
      if (depth == 0) return;
      for (int i = 0; i < 4; ++i) heap_call::post(under_test, [&, depth] { fork(depth - 1); });
    };
    heap_call::post(under_test, [&] { fork(6); });
    under_test.join();
    ASSERT_EQ(ran, 5461);
  }
}

TEST_P(pool_on, a_burst_wakes_one_worker_after_the_other) {
  constexpr int workers = 4;
  pool under_test(options_of(GetParam(), workers));
  for (int round = 0; round < 10; ++round) {
    ASSERT_TRUE(eventually([&] { return testing::all_parked(under_test); }));
    std::atomic<int> together = 0;
    std::atomic<int> most = 0;
    std::atomic<int> done = 0;
    for (int i = 0; i < workers; ++i) {
      heap_call::post(under_test, [&] {
        const int now = ++together;
        int seen = most;
        while (now > seen && !most.compare_exchange_weak(seen, now)) {
        }
        const auto limit = std::chrono::steady_clock::now() + 5s;
        while (most < workers && std::chrono::steady_clock::now() < limit) {
          std::this_thread::sleep_for(1ms);
        }
        --together;
        ++done;
      });
    }
    ASSERT_TRUE(eventually([&] { return done == workers; }));
    EXPECT_EQ(most, workers);  // all four were inside at once, though each wake-up woke only one
  }
}

/// Of the workers' threads alone: what a sanitizer's own thread and the sleeping test use is not
/// the pool's.
struct cpu_times {
  std::uint64_t ran_ns = 0;
  std::uint64_t kept_waiting_ns = 0;  ///< Runnable, on a processor that ran something else.
};

cpu_times of_workers() {
  cpu_times sum;
  for (const auto& thread : std::filesystem::directory_iterator("/proc/self/task")) {
    std::string name;
    cpu_times its;
    std::ifstream(thread.path() / "comm") >> name;
    std::ifstream(thread.path() / "schedstat") >> its.ran_ns >> its.kept_waiting_ns;
    if (!name.starts_with("bwos-")) continue;
    sum.ran_ns += its.ran_ns;
    sum.kept_waiting_ns += its.kept_waiting_ns;
  }
  return sum;
}

TEST_P(pool_on, a_worker_that_turns_idle_takes_what_waits_behind_a_long_task) {
  const int rounds = 1000 / testing::sanitizer_divisor;
  int late = 0;
  pool under_test(options_of(GetParam(), 2));
  for (int round = 0; round < rounds; ++round) {
    std::atomic<bool> b_runs = false;
    std::atomic<bool> b_over = false;
    std::atomic<bool> a_runs = false;
    std::atomic<bool> a_over = false;
    std::atomic<int> behind = 10;
    std::chrono::steady_clock::time_point b_idle;
    std::chrono::steady_clock::time_point last;
    const std::uint64_t kept_waiting = of_workers().kept_waiting_ns;
    heap_call::post(under_test, [&] {  // B, until 1 ms after A began
      b_runs = true;
      while (!a_runs) {
      }
      testing::spin_for(1ms);
      b_idle = std::chrono::steady_clock::now();
      b_over = true;
    });
    ASSERT_TRUE(eventually([&] { return b_runs.load(); }, 100us));
    heap_call::post(under_test, [&] {  // on A: a long task, and ten short ones behind it
      heap_call::post(under_test, [&] {
        a_runs = true;
        testing::spin_for(20ms);
        a_over = true;
      });
      for (int i = 0; i < 10; ++i) {
        heap_call::post(under_test, [&] {
          if (behind == 1) last = std::chrono::steady_clock::now();
          --behind;
        });
      }
    });
    ASSERT_TRUE(eventually([&] { return behind == 0 && a_over && b_over; }, 100us));
    // Counted from B's end, as other processes may delay that, and what they kept the workers
    // waiting does not count.
    const std::chrono::nanoseconds others(of_workers().kept_waiting_ns - kept_waiting);
    if (last - b_idle > 4ms + others) ++late;
  }
  // On a machine of its own none is late; one in a hundred is for a hypervisor that takes the CPU
  // away now and then.
  EXPECT_LE(late, rounds / 100);
}

TEST_P(pool_on, an_idle_pool_uses_no_cpu) {
  pool under_test(options_of(GetParam(), 2));
  ASSERT_TRUE(eventually([&] { return testing::all_parked(under_test); }));
  const std::uint64_t before = of_workers().ran_ns;
  ASSERT_GT(before, 0U);
  std::this_thread::sleep_for(5s);
  EXPECT_LT(of_workers().ran_ns - before, 1'000'000U * testing::sanitizer_divisor);
}

TEST_P(pool_on, at_most_half_of_the_workers_search) {
  pool under_test(options_of(GetParam(), 4));
  std::atomic<bool> over = false;
  std::atomic<int> ran = 0;
  std::function<void()> forward = [&] {
    ++ran;
    if (!over) heap_call::post(under_test, forward);
    if (!over && ran % 3 == 0) heap_call::post(under_test, [&] { ++ran; });
  };
  heap_call::post(under_test, forward);
  unsigned most = 0;
  const auto end = std::chrono::steady_clock::now() + 500ms;
  while (std::chrono::steady_clock::now() < end) {
    most = std::max(most, under_test.core().work().idle.searching());
  }
  over = true;
  under_test.join();
  EXPECT_GT(ran, 0);
  EXPECT_LE(most, 2U);
}

TEST_P(pool_on, stealing_can_be_turned_off) {
  options settings = options_of(GetParam(), 2);
  settings.steal = steal_kind::none;
  std::atomic<int> ran = 0;
  pool under_test(settings);
  heap_call::post(under_test, [&] {
    for (int i = 0; i < 1000; ++i) {
      heap_call::post(under_test, [&] {
        testing::spin_for(10us);
        ++ran;
      });
    }
  });
  under_test.join();
  EXPECT_EQ(ran, 1000);
  for (const worker_statistics& each : under_test.statistics().workers) {
    EXPECT_EQ(each.steal_entries, 0U);
    EXPECT_EQ(each.steal_try, 0U);
  }
}

TEST_P(pool_on, says_whether_somebody_is_idle_who_would_take_work) {
  for (const steal_kind steal : {steal_kind::random, steal_kind::none}) {
    options settings = options_of(GetParam(), 2);
    settings.steal = steal;
    pool under_test(settings);
    const bool steals = steal != steal_kind::none;
    ASSERT_TRUE(eventually([&] { return testing::all_parked(under_test); }));
    EXPECT_EQ(under_test.has_idle(), steals);
    std::atomic<int> running = 0;
    std::atomic<bool> over = false;
    for (int i = 0; i < 2; ++i) {
      heap_call::post(under_test, [&] {
        ++running;
        while (!over) std::this_thread::sleep_for(1ms);
      });
      ASSERT_TRUE(eventually([&] { return running == i + 1; }));
    }
    EXPECT_FALSE(under_test.has_idle());
    over = true;
    under_test.join();
  }
}

TEST_P(pool_on, counters_add_up) {
  pool under_test(options_of(GetParam(), 2));
  for (int i = 0; i < 10'000; ++i) heap_call::post(under_test, [] { testing::spin_for(1us); });
  under_test.join();
  worker_statistics sum;
  for (const worker_statistics& each : under_test.statistics().workers) {
#define BWOS_FIELD(name, meaning) sum.name += each.name;
    BWOS_WORKER_COUNTERS(BWOS_FIELD)
#undef BWOS_FIELD
  }
  EXPECT_EQ(sum.run, 10'000U);
  EXPECT_EQ(sum.get, sum.run);
  EXPECT_EQ(sum.inject_get, 10'000U + sum.spill);
  EXPECT_EQ(sum.put, sum.inject_get + sum.steal_entries);
  EXPECT_GT(sum.park, 0U);
}

TEST_P(pool_on, a_turn_lasts_as_long_as_its_task_and_parked_workers_are_in_none) {
  pool under_test(options_of(GetParam(), 2));
  const auto oldest = [&] {
    return std::max(under_test.turn_of(0).age, under_test.turn_of(1).age);
  };
  const auto parked = [&] {
    return under_test.turn_of(0).began == 0 && under_test.turn_of(1).began == 0;
  };
  // A worker may look once more at its start.
  ASSERT_TRUE(
      eventually([&] { return testing::all_parked(under_test) && parked() && oldest() == 0us; }));
  std::atomic<bool> over = false;
  const auto begun = std::chrono::steady_clock::now();
  heap_call::post(under_test, [&] { EXPECT_TRUE(eventually([&] { return over.load(); }, 1ms)); });
  ASSERT_TRUE(eventually([&] { return oldest() >= 200ms; }, 1ms));
  EXPECT_GE(std::chrono::steady_clock::now() - begun, 199ms);
  EXPECT_TRUE(eventually([&] { return oldest() >= 300ms; }, 1ms));
  over = true;
  EXPECT_TRUE(eventually(parked));
}

TEST_P(pool_on, a_worker_that_always_has_tasks_turns_its_loop) {
  pool under_test(options_of(GetParam(), 1));
  std::atomic<bool> over = false;
  std::function<void()> again = [&] {
    testing::spin_for(10us);
    if (!over) heap_call::post(under_test, again);
  };
  heap_call::post(under_test, again);
  ASSERT_TRUE(eventually([&] { return under_test.turn_of(0).began != 0; }));
  const std::uint64_t first = under_test.turn_of(0).began;
  EXPECT_TRUE(eventually([&] { return under_test.turn_of(0).began != first; }, 1ms));
  over = true;
  under_test.join();
}

TEST_P(pool_on, attached_threads_work_until_the_pool_is_out_of_work) {
  pool under_test(options_of(GetParam(), 0));
  std::atomic<int> ran = 0;
  for (int i = 0; i < 100; ++i) heap_call::post(under_test, [&] { ++ran; });
  std::thread first([&] { under_test.attach(); });
  std::thread second([&] { under_test.attach(); });
  under_test.join();
  first.join();
  second.join();
  EXPECT_EQ(ran, 100);
}

/// asio::thread_pool runs it, too. Whether the others sleep when it is posted, or fall asleep
/// later.
TEST_P(pool_on, a_task_that_waits_for_the_one_it_has_posted_does_not_wait_for_ever) {
  for (const unsigned workers : {2U, 4U}) {
    pool under_test(options_of(GetParam(), workers));
    for (int round = 0; round < 200 / testing::sanitizer_divisor; ++round) {
      if (round % 2 == 0) {
        ASSERT_TRUE(eventually([&] { return testing::all_parked(under_test); }));
      }
      if (round % 20 == 0) std::this_thread::sleep_for(30ms);  // the monitor sleeps, too
      std::atomic<bool> second = false;
      std::atomic<bool> first = false;
      heap_call::post(under_test, [&] {
        heap_call::post(under_test, [&] { second = true; });
        EXPECT_TRUE(eventually([&] { return second.load(); }, 100us)) << round;
        first = true;
      });
      ASSERT_TRUE(eventually([&] { return first.load(); }, 100us)) << round;
    }
  }
}

/// Short tasks before it make the pool expect another short one.
TEST_P(pool_on, nothing_waits_for_the_end_of_a_long_task_though_all_were_short_before) {
  pool under_test(options_of(GetParam(), 2));
  std::atomic<int> ran = 0;
  for (int i = 0; i < 1000; ++i) heap_call::post(under_test, [&] { ++ran; });
  ASSERT_TRUE(eventually([&] { return ran == 1000; }));
  for (int round = 0; round < 200 / testing::sanitizer_divisor; ++round) {
    // One more task a round, so that the two come to lie in different blocks now and then.
    ran = 0;
    heap_call::post(under_test, [&] { ++ran; });
    ASSERT_TRUE(eventually([&] { return ran == 1 && testing::all_parked(under_test); }));
    if (round < 40) std::this_thread::sleep_for(20ms);  // the monitor sleeps, too
    std::atomic<bool> second = false;
    std::atomic<bool> first = false;
    call later([&] { second = true; });
    call longer([&] {
      EXPECT_TRUE(eventually([&] { return second.load(); }, 100us)) << round;
      first = true;
    });
    // What yields is put behind a poll in one go, as a poll's own events are: nobody is woken.
    call both([&] {
      under_test.yield(longer);
      under_test.yield(later);
    });
    under_test.post(both);
    ASSERT_TRUE(eventually([&] { return first.load(); }, 100us)) << round;
  }
}

TEST_P(pool_on, a_thread_that_attaches_takes_what_waits_behind_a_long_task) {
  pool under_test(options_of(GetParam(), 1));
  constexpr int short_tasks = 10;
  std::atomic<bool> running = false;
  std::atomic<int> ran = 0;
  heap_call::post(under_test, [&] {
    heap_call::post(under_test, [&] {
      running = true;
      EXPECT_TRUE(eventually([&] { return ran == short_tasks; }));
    });
    for (int i = 0; i < short_tasks; ++i) heap_call::post(under_test, [&] { ++ran; });
  });
  ASSERT_TRUE(eventually([&] { return running.load(); }));
  std::thread helper([&] { under_test.attach(); });
  under_test.join();
  helper.join();
  EXPECT_EQ(ran, short_tasks);
}

TEST_P(pool_on, sleeping_coroutines_wake_in_order_and_never_early) {
  pool under_test(options_of(GetParam(), 1));  // two may be late by a different time each
  std::vector<int> order;
  int early = 0;
  const auto begun = std::chrono::steady_clock::now();
  const auto sleeper = [&](int ms) -> task<void> {
    const auto due = begun + std::chrono::milliseconds(ms);
    co_await sleep_until(due);
    if (std::chrono::steady_clock::now() < due) ++early;
    order.push_back(ms);
  };
  for (const int ms : {90, 30, 60, 10, 120}) spawn(under_test, sleeper(ms));
  under_test.join();
  EXPECT_EQ(order, (std::vector<int>{10, 30, 60, 90, 120}));
  EXPECT_EQ(early, 0);
}

TEST_P(pool_on, a_yielding_coroutine_lets_the_others_run) {
  pool under_test(options_of(GetParam(), 1));
  std::atomic<bool> over = false;
  std::atomic<int> yields = 0;
  const auto hog = [&]() -> task<void> {
    while (!over) {
      ++yields;
      co_await under_test.yield();
    }
  };
  spawn(under_test, hog());
  ASSERT_TRUE(eventually([&] { return yields > 100; }));
  heap_call::post(under_test, [&] { over = true; });
  under_test.join();
  EXPECT_TRUE(over);
}

TEST_P(pool_on, destroying_a_pool_frees_suspended_coroutines) {
  const auto witness = std::make_shared<int>(0);
  {
    pool under_test(options_of(GetParam(), 2));
    const auto sleeper = [](std::shared_ptr<int> held) -> task<void> {
      co_await sleep_for(1h);
      ++*held;
    };
    for (int i = 0; i < 10; ++i) spawn(under_test, sleeper(witness));
    std::this_thread::sleep_for(20ms);
    under_test.stop();
  }
  EXPECT_EQ(witness.use_count(), 1);
  EXPECT_EQ(*witness, 0);
}

TEST(pool, a_deadline_is_met_though_the_worker_that_armed_it_is_in_a_long_task) {
  pool under_test(options_of(testing::on_futexes, 4));
  std::atomic<bool> slept = false;
  const auto sleeper = [&]() -> task<void> {
    co_await sleep_for(20ms);
    slept = true;
  };
  for (int round = 0; round < 5; ++round) {
    slept = false;
    std::atomic<bool> over = false;
    heap_call::post(under_test, [&] {
      detach(sleeper());  // armed here
      EXPECT_TRUE(eventually([&] { return slept.load(); }, 100us));
      over = true;
    });
    ASSERT_TRUE(eventually([&] { return over.load(); }, 100us));
  }
}

/// How many it wakes, of one that is parked. The worker's own count, so that nobody else's wake-ups
/// are in it.
std::uint64_t woken_by_a_post(pool& of, std::optional<wake_rule> rule) {
  call posted([] {});
  std::uint64_t woken = 0;
  heap_call::post(of, [&] {
    EXPECT_TRUE(eventually([&] { return of.core().work().idle.parked() == 1; }));
    if (rule) {
      of.post(posted, *rule);
    } else {
      of.post(posted);
    }
    woken = of.core().work().here()->statistics().wake;
  });
  of.join();
  EXPECT_EQ(posted.runs, 1);
  return woken;
}

TEST_P(pool_on, a_single_post_wakes_nobody_unless_it_asks_for_it) {
  for (const bool by_option : {false, true}) {
    const auto woken = [&](wake_rule rule) {
      options settings = options_of(GetParam(), 2);
      if (by_option) settings.posts_wake = rule;
      pool under_test(settings);
      return woken_by_a_post(under_test, by_option ? std::nullopt : std::optional(rule));
    };
    EXPECT_EQ(woken(wake_rule::earned), 0U);
    // Where the poster loses its processor behind the queuing, the monitor may be there first.
    EXPECT_TRUE(eventually([&] { return woken(wake_rule::at_once) == 1; }));
  }
}

TEST(pool, several_pools_live_in_one_process) {
  std::atomic<int> ran = 0;
  pool one(options_of(testing::on_futexes, 2));
  pool two(options_of(testing::on_a_shared_set, 2));
  for (int i = 0; i < 1000; ++i) {
    heap_call::post(one, [&] {
      EXPECT_TRUE(one.running_here());
      EXPECT_FALSE(two.running_here());
      heap_call::post(two, [&] { ++ran; });
    });
  }
  one.join();
  two.join();
  EXPECT_EQ(ran, 1000);
}

TEST(pool, options_out_of_range_name_value_and_range) {
  options settings;
  settings.workers = 1025;
  try {
    pool under_test(settings);
    FAIL();
  } catch (const std::invalid_argument& error) {
    EXPECT_STREQ(error.what(), "bwos::options::workers is 1025, must be 0 to 1024");
  }
}

TEST(pool, default_workers_stay_within_the_affinity_mask) {
  EXPECT_GE(default_workers(), 1U);
  EXPECT_LE(default_workers(), std::thread::hardware_concurrency());
}

}  // namespace
}  // namespace bwos
