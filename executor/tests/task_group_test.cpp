// SPDX-License-Identifier: Apache-2.0
// Fork-join of functions: invoke, task_group, and what a wait does meanwhile.
#include <bwos/task_group.hpp>

#include <gtest/gtest.h>

#include <atomic>
#include <bwos/parallel.hpp>
#include <bwos/pool.hpp>
#include <bwos/sync_wait.hpp>
#include <bwos/timer.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "pool_fixture.hpp"

namespace bwos::testing {
namespace {

using namespace std::chrono_literals;

options futex_pool(unsigned workers) {
  return options_of(on_futexes, workers);
}

long fib(long n) {
  if (n < 2) return n;
  long a = 0;
  long b = 0;
  invoke([&] { a = fib(n - 1); }, [&] { b = fib(n - 2); });
  return a + b;
}

std::uint64_t sum_of(const pool& of, std::uint64_t worker_statistics::* counter) {
  std::uint64_t sum = 0;
  for (const worker_statistics& each : of.statistics().workers) sum += each.*counter;
  return sum;
}

class task_group_on : public ::testing::TestWithParam<unsigned> {
 protected:
  pool pool_{futex_pool(GetParam())};
};
INSTANTIATE_TEST_SUITE_P(workers, task_group_on, ::testing::Values(1, 2, 4),
                         ::testing::PrintToStringParamName());

TEST_P(task_group_on, invoke_calls_both) {
  for (int i = 0; i < 20; ++i) ASSERT_EQ(sync_wait(pool_, [] { return fib(20); }), 6765);
}

TEST_P(task_group_on, invoke_calls_as_many_as_there_are) {
  std::atomic<int> sum{0};
  sync_wait(pool_, [&] {
    invoke([&] { sum += 1; }, [&] { sum += 10; }, [&] { sum += 100; }, [&] { sum += 1000; });
  });
  ASSERT_EQ(sum.load(), 1111);
}

TEST_P(task_group_on, runs_everything_once) {
  constexpr int count = 20000 / sanitizer_divisor;
  std::vector<std::atomic<int>> runs(count);
  for (const bool inside : {true, false}) {
    for (auto& each : runs) each = 0;
    const auto run_all = [&] {
      task_group group(pool_);
      for (int i = 0; i < count; ++i) {
        group.run([&runs, i] { runs[static_cast<std::size_t>(i)].fetch_add(1); });
      }
      group.wait();
      for (const auto& each : runs) ASSERT_EQ(each.load(), 1);
    };
    inside ? sync_wait(pool_, run_all) : run_all();
  }
}

TEST_P(task_group_on, children_may_run_more_of_their_group) {
  std::atomic<int> runs{0};
  task_group group(pool_);
  const auto tree = [&](auto self, int depth) -> void {
    runs.fetch_add(1);
    if (depth == 0) return;
    group.run([self, depth] { self(self, depth - 1); });
    group.run([self, depth] { self(self, depth - 1); });
  };
  for (int round = 0; round < 10; ++round) {
    runs = 0;
    sync_wait(pool_, [&] { tree(tree, 10); });
    group.wait();
    ASSERT_EQ(runs.load(), 2047);
  }
}

struct failure_at : std::runtime_error {
  explicit failure_at(int depth) : std::runtime_error("at " + std::to_string(depth)) {}
};

void fails_at(int depth, int at, bool first, std::atomic<int>& ended) {
  struct count {
    std::atomic<int>& ended;
    ~count() { ended.fetch_add(1); }
  } const counted{ended};
  if (depth == at) throw failure_at(depth);
  if (depth == 0) return;
  invoke([&] { fails_at(depth - 1, first ? at : -1, first, ended); },
         [&] { fails_at(depth - 1, first ? -1 : at, first, ended); });
}

TEST_P(task_group_on, invoke_hands_on_an_exception_of_any_depth_when_both_have_ended) {
  constexpr int depth = 8;
  for (int round = 0; round < 1000 / sanitizer_divisor; ++round) {
    const int at = round % (depth + 1);
    std::atomic<int> ended{0};
    try {
      sync_wait(pool_, [&] { fails_at(depth, at, round % 2 == 0, ended); });
      FAIL() << "no exception";
    } catch (const failure_at& caught) {
      ASSERT_EQ(caught.what(), "at " + std::to_string(at));
    }
    ASSERT_EQ(ended.load(), (2 << depth) - 1 - ((2 << at) - 2)) << at;
  }
}

void group_fails_at(pool& where, int depth, int at, std::atomic<int>& ended) {
  struct count {
    std::atomic<int>& ended;
    ~count() { ended.fetch_add(1); }
  } const counted{ended};
  if (depth == at) throw failure_at(depth);
  if (depth == 0) return;
  task_group group(where);
  group.run([&] { group_fails_at(where, depth - 1, at, ended); });
  group.run([&] { group_fails_at(where, depth - 1, -1, ended); });
  group.wait();
}

TEST_P(task_group_on, a_group_hands_on_an_exception_of_any_depth_when_all_have_ended) {
  constexpr int depth = 5;
  for (int round = 0; round < 1000 / sanitizer_divisor; ++round) {
    const int at = round % (depth + 1);
    std::atomic<int> ended{0};
    try {
      sync_wait(pool_, [&] { group_fails_at(pool_, depth, at, ended); });
      FAIL() << "no exception";
    } catch (const failure_at& caught) {
      ASSERT_EQ(caught.what(), "at " + std::to_string(at));
    }
    ASSERT_EQ(ended.load(), (2 << depth) - 1 - ((2 << at) - 2)) << at;
  }
}

TEST_P(task_group_on, invoke_drops_the_second_exception_and_counts_it) {
  for (int i = 0; i < 100; ++i) {
    try {
      sync_wait(pool_, [] {
        invoke([] { throw std::logic_error("first"); }, [] { throw std::logic_error("second"); });
      });
      FAIL() << "no exception";
    } catch (const std::logic_error& caught) {
      ASSERT_STREQ(caught.what(), "first");
    }
  }
  ASSERT_EQ(sum_of(pool_, &worker_statistics::exceptions_dropped), 100U);
}

TEST_P(task_group_on, a_wait_throws_one_exception_and_counts_all) {
  for (const bool inside : {true, false}) {
    const auto check = [&] {
      task_group group(pool_);
      std::atomic<int> runs{0};
      for (int i = 0; i < 10; ++i) {
        group.run([&runs, i] {
          runs.fetch_add(1);
          if (i % 2 == 0) throw std::logic_error("each");
        });
      }
      EXPECT_THROW(group.wait(), std::logic_error);
      EXPECT_EQ(runs.load(), 10);
      EXPECT_EQ(group.exceptions(), 5U);
      group.run([] {});
      group.wait();  // used again, and forgotten
      EXPECT_EQ(group.exceptions(), 0U);
    };
    inside ? sync_wait(pool_, check) : check();
  }
}

TEST_P(task_group_on, hands_its_stop_token_to_its_children) {
  std::stop_source source;
  std::atomic<int> stopped{0};
  task_group group(pool_, source.get_token());
  for (int i = 0; i < 100; ++i) {
    group.run([&](const std::stop_token& token) {
      while (!token.stop_requested()) std::this_thread::sleep_for(100us);
      stopped.fetch_add(1);
    });
  }
  source.request_stop();
  group.wait();
  ASSERT_EQ(stopped.load(), 100);
}

TEST_P(task_group_on, the_end_of_a_group_waits_for_it) {
  std::atomic<int> runs{0};
  const auto forget = [&] {
    task_group group(pool_);
    for (int i = 0; i < 50; ++i) {
      group.run([&] {
        std::this_thread::sleep_for(50us);
        runs.fetch_add(1);
      });
    }
    group.run([] { throw std::logic_error("nobody sees it"); });
  };
  sync_wait(pool_, forget);
  ASSERT_EQ(runs.load(), 50);
  forget();
  ASSERT_EQ(runs.load(), 100);
}

TEST_P(task_group_on, a_wait_runs_no_posted_work) {
  std::atomic<bool> waiting{false};
  std::atomic<bool> over{false};
  std::atomic<bool> nested{false};
  call posted([&] {
    if (waiting.load() && !over.load() && GetParam() == 1) nested = true;
  });
  sync_wait(pool_, [&] {
    pool_.post(posted);
    waiting = true;
    task_group group(pool_);
    for (int i = 0; i < 100; ++i) group.run([] { std::this_thread::sleep_for(10us); });
    group.wait();
    invoke([] {}, [] {});
    over = true;
  });
  pool_.join();
  ASSERT_EQ(posted.runs, 1);
  ASSERT_FALSE(nested.load());
}

TEST_P(task_group_on, deep_waits_stop_stealing_and_come_to_an_end) {
  options narrow = futex_pool(GetParam());
  narrow.wait_depth = 1;
  pool shallow(narrow);
  for (int i = 0; i < 20; ++i) ASSERT_EQ(sync_wait(shallow, [] { return fib(18); }), 2584);
}

TEST(invoke, off_a_pool_calls_one_after_the_other) {
  std::string order;
  invoke([&] { order += "a"; }, [&] { order += "b"; }, [&] { order += "c"; });
  ASSERT_EQ(order, "abc");
}

TEST(invoke, its_second_half_is_open_to_others_at_once) {
  pool two(futex_pool(2));
  for (int round = 0; round < 200; ++round) {
    std::atomic<bool> second{false};
    sync_wait(two, [&] {
      invoke(
          [&] {
            const auto end = std::chrono::steady_clock::now() + 20s;
            while (!second.load() && std::chrono::steady_clock::now() < end) {
            }
          },
          [&] { second = true; });
    });
    ASSERT_TRUE(second.load());
  }
}

TEST(run_until, runs_what_is_forked_meanwhile) {
  pool one(futex_pool(1));
  sync_wait(one, [&] {
    std::atomic<int> runs{0};
    task_group group(one);
    for (int i = 0; i < 10; ++i) group.run([&] { runs.fetch_add(1); });
    ASSERT_TRUE(try_run_one());
    ASSERT_EQ(runs.load(), 1);
    run_until([&] { return runs.load() == 7; });
    ASSERT_EQ(runs.load(), 7);
    group.wait();
    ASSERT_EQ(runs.load(), 10);
    ASSERT_FALSE(try_run_one());
  });
  ASSERT_FALSE(try_run_one()) << "no worker";
}

bool is_canceled(const std::function<void()>& body) {
  try {
    body();
  } catch (const std::system_error& caught) {
    return caught.code() == std::errc::operation_canceled;
  }
  return false;
}

TEST(stopped_pool, a_wait_for_what_it_will_not_run_ends_with_an_error) {
  pool one(futex_pool(1));
  task_group group(one);
  std::atomic<bool> begun{false};
  std::atomic<int> others{0};
  group.run([&] {
    begun = true;
    while (!one.stopped()) std::this_thread::sleep_for(100us);
    std::this_thread::sleep_for(5ms);
  });
  while (!begun) std::this_thread::sleep_for(100us);
  for (int i = 0; i < 10; ++i) group.run([] { FAIL() << "the pool has stopped"; });
  call posted([&] { others.fetch_add(1); });
  one.post(posted);
  std::thread stopper([&] {
    std::this_thread::sleep_for(5ms);
    one.stop();
  });
  EXPECT_TRUE(is_canceled([&] { group.wait(); }));
  EXPECT_EQ(group.exceptions(), 10U);
  stopper.join();
  EXPECT_TRUE(is_canceled([&] { sync_wait(one, [] { return 1; }); })) << "and later ones at once";
  EXPECT_TRUE(is_canceled([&] { sync_wait(one, []() -> fork_task<int> { co_return 1; }()); }));
  EXPECT_EQ(posted.discards, 0) << "that is the pool's end to do";
}

TEST(stopped_pool, what_runs_when_it_is_stopped_runs_to_its_end) {
  for (int round = 0; round < 50; ++round) {
    pool two(futex_pool(2));
    std::atomic<long> result{0};
    std::atomic<bool> begun{false};
    std::thread stopper([&] {
      while (!begun) std::this_thread::yield();
      two.stop();
    });
    sync_wait(two, [&] {
      begun = true;
      result = fib(16);
    });
    ASSERT_EQ(result.load(), 987);
    stopper.join();
  }
}

TEST(stopped_pool, its_end_wakes_who_waits_for_it) {
  for (int round = 0; round < 20; ++round) {
    auto none = std::make_unique<pool>(futex_pool(0));
    std::atomic<bool> posted{false};
    std::thread waiter([&] {
      task_group group(*none);
      group.run([] { FAIL() << "it has no worker"; });
      posted = true;
      EXPECT_TRUE(is_canceled([&] { group.wait(); }));
    });
    while (!posted) std::this_thread::sleep_for(100us);
    if (round % 2 == 0) std::this_thread::sleep_for(1ms);
    none->stop();
    waiter.join();
    none.reset();
  }
}

/// A worker of either may still be inside a post to the other, though what it posted has run.
void join_both(pool& one, pool& other) {
  one.join();
  other.join();
}

fork_task<> through(pool& other) {
  co_await other.schedule();
}

fork_task<> twice_through(pool& other) {
  co_await fork_join(through(other), through(other));
}

// One of the children's waits runs the next child, and so on: but for wait_depth, all of them.
TEST(task_group, waits_for_what_is_elsewhere_do_not_pile_up_on_the_stack) {
  pool one(futex_pool(1));
  pool other(futex_pool(1));
  constexpr int count = 100'000 / sanitizer_divisor;
  std::atomic<int> ended{0};
  const auto body = [&](int) {
    sync_wait(one, through(other));
    ended.fetch_add(1);
  };
  parallel_for(one, 0, count, body, {.grain = 1});
  ASSERT_EQ(ended.load(), count);
  join_both(one, other);
}

class full_depth : public ::testing::TestWithParam<unsigned> {};
INSTANTIATE_TEST_SUITE_P(wait_depth, full_depth, ::testing::Values(1, 2, 64),
                         ::testing::PrintToStringParamName());

TEST_P(full_depth, hides_nothing_that_a_wait_needs) {
  for (const unsigned workers : {1U, 2U}) {
    for (const steal_kind steal : {steal_kind::random, steal_kind::none}) {
      options how = futex_pool(workers);
      how.wait_depth = GetParam();
      how.steal = steal;
      pool some(how);
      pool other(futex_pool(1));
      std::atomic<int> ended{0};
      const auto count_one = [&] { ended.fetch_add(1); };
      const auto body = [&](int) {
        sync_wait(some, twice_through(other));
        task_group a(some);
        task_group b(some);
        a.run(count_one);
        b.run(count_one);
        a.wait();
        b.wait();
        sync_wait(some, through(other));
      };
      parallel_for(some, 0, 300, body, {.grain = 1});
      sync_wait(some, [&] {
        task_group group(some);
        for (int i = 0; i < 300; ++i) group.run([&] { sync_wait(some, twice_through(other)); });
        group.wait();
      });
      ASSERT_EQ(ended.load(), 600);
      join_both(some, other);
    }
  }
}

TEST(stopped_pool, a_wait_ends_though_its_work_comes_back_late) {
  pool other(futex_pool(1));
  pool one(futex_pool(1));
  std::atomic<bool> away{false};
  bool canceled = false;
  const auto root = [&]() -> task<> {
    co_await other.schedule();
    away = true;
    std::this_thread::sleep_for(20ms);
    co_await one.schedule();
  };
  call handler([&] { canceled = is_canceled([&] { sync_wait(one, root()); }); });
  one.post(handler);
  while (!away) std::this_thread::yield();
  one.stop();
  join_both(one, other);
  ASSERT_TRUE(canceled);
}

/// Posts that much when it ends.
struct posts_at_its_end {
  pool* to;
  int count;
  posts_at_its_end(pool& where, int much) : to(&where), count(much) {}
  posts_at_its_end(posts_at_its_end&& other) noexcept
      : to(std::exchange(other.to, nullptr)), count(other.count) {}
  posts_at_its_end& operator=(posts_at_its_end&&) = delete;
  ~posts_at_its_end() {
    for (int i = 0; to != nullptr && i < count; ++i) heap_call::post(*to, [] {});
  }
};

TEST(stopped_pool, what_its_waits_discard_may_post) {
  for (int round = 0; round < 20; ++round) {
    pool four(futex_pool(4));
    std::atomic<int> waiting{0};
    const auto sleeper = [](posts_at_its_end) -> task<> { co_await sleep_for(1h); };
    for (int i = 0; i < 4; ++i) {
      heap_call::post(four, [&] {
        ++waiting;
        while (waiting < 4) std::this_thread::yield();
        EXPECT_TRUE(is_canceled([&] { sync_wait(four, sleeper({four, 300})); }));
      });
    }
    while (waiting < 4) std::this_thread::yield();
    for (int i = 0; i < 20; ++i) spawn(four, sleeper({four, 200}));
    four.stop();
    four.join();
  }
}

TEST(stopped_pool, a_worker_that_waits_for_what_was_posted_is_told_that_it_will_not_run) {
  for (int round = 0; round < 20; ++round) {
    pool one(futex_pool(1));
    task_group group(one);
    std::atomic<bool> begun{false};
    std::atomic<bool> posted{false};
    bool canceled = false;
    call handler([&] {
      begun = true;
      while (!posted || (!one.stopped() && round % 2 == 0)) std::this_thread::yield();
      canceled = is_canceled([&] { group.wait(); });
    });
    one.post(handler);
    while (!begun) std::this_thread::yield();
    group.run([] { FAIL() << "the only worker waits"; });
    posted = true;
    if (round % 4 == 3) std::this_thread::sleep_for(1ms);
    one.stop();
    one.join();
    ASSERT_TRUE(canceled);
  }
}

TEST(stopped_pool, a_worker_that_waits_for_a_timer_is_told_that_it_is_not_kept) {
  for (const unsigned reactor_threads : {0U, 1U}) {
    for (const parking& on : {on_futexes, on_private_sets, on_a_shared_set}) {
      if (reactor_threads != 0 && on.reactor == reactor_kind::none) continue;
      options how = options_of(on, 2);
      how.reactor_threads = reactor_threads;
      if (reactor_threads != 0) how.reactor_group = 1;
      pool two(how);
      std::atomic<int> waiting{0};
      std::atomic<int> canceled{0};
      const auto sleeper = []() -> task<> { co_await sleep_for(1h); };
      const auto body = [&] {
        ++waiting;
        if (is_canceled([&] { sync_wait(two, sleeper()); })) ++canceled;
      };
      call first(body);
      call second(body);
      two.post(first, wake_rule::at_once);
      two.post(second, wake_rule::at_once);
      while (waiting != 2) std::this_thread::yield();
      two.stop();
      two.join();
      ASSERT_EQ(canceled, 2);
    }
  }
}

TEST(task_group, threads_that_attach_do_the_work_of_a_pool_of_none) {
  pool none(futex_pool(0));
  std::thread attached([&] { none.attach(); });
  ASSERT_EQ(sync_wait(none, [] { return fib(16); }), 987);
  none.stop();
  attached.join();
}

TEST(task_group, a_thousand_workers_share_one_tree) {
  pool many(futex_pool(1024 / sanitizer_divisor));
  ASSERT_EQ(sync_wait(many, [] { return fib(22); }), 17711);
}

/// What the owner forked last, and then many leaves that each take long.
TEST(invoke, an_idle_worker_gets_at_what_waits_under_a_long_task) {
  pool two(futex_pool(2));
  std::set<std::thread::id> threads;
  std::mutex lock;
  const auto leaf = [&] {
    std::this_thread::sleep_for(2ms);
    const std::lock_guard guard(lock);
    threads.insert(std::this_thread::get_id());
  };
  sync_wait(two, [&] {
    task_group group(two);
    for (int i = 0; i < 20; ++i) group.run(leaf);
    group.wait();
  });
  EXPECT_EQ(threads.size(), 2U);
}

TEST(task_group, two_pools_may_wait_for_each_other) {
  pool left(futex_pool(2));
  pool right(futex_pool(2));
  std::atomic<int> runs{0};
  const auto bounce = [&](auto self, int depth) -> void {
    runs.fetch_add(1);
    if (depth == 0) return;
    task_group group(depth % 2 == 0 ? left : right);
    group.run([&] { self(self, depth - 1); });
    group.wait();
  };
  // As deep as there are workers: each wait for another pool keeps one.
  bounce(bounce, 4);
  ASSERT_EQ(runs.load(), 5);
}

}  // namespace
}  // namespace bwos::testing
