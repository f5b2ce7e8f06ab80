// SPDX-License-Identifier: Apache-2.0
// Fork-join of coroutines: results, exceptions, stop tokens, stack, discards, and what it does
// beside events.
#include <gtest/gtest.h>

#include <atomic>
#include <bwos/fork_join.hpp>
#include <bwos/pool.hpp>
#include <bwos/sync_wait.hpp>
#include <bwos/timer.hpp>
#include <chrono>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "pool_fixture.hpp"

namespace bwos::testing {
namespace {

using namespace std::chrono_literals;

options futex_pool(unsigned workers) {
  return options_of(on_futexes, workers);
}

fork_task<long> fib(long n) {
  if (n < 2) co_return n;
  auto [a, b] = co_await fork_join(fib(n - 1), fib(n - 2));
  co_return a + b;
}

class fork_join_on : public ::testing::TestWithParam<unsigned> {
 protected:
  pool pool_{futex_pool(GetParam())};
};
INSTANTIATE_TEST_SUITE_P(workers, fork_join_on, ::testing::Values(1, 2, 4),
                         ::testing::PrintToStringParamName());

TEST_P(fork_join_on, gives_the_results_of_all_children) {
  for (int i = 0; i < 20; ++i) ASSERT_EQ(sync_wait(pool_, fib(20)), 6765);
}

TEST_P(fork_join_on, takes_children_of_all_kinds) {
  auto text = [](int n) -> fork_task<std::string> { co_return std::string(100, char('a' + n)); };
  auto nothing = []() -> fork_task<> { co_return; };
  auto moved = []() -> task<std::unique_ptr<int>> { co_return std::make_unique<int>(7); };
  auto all = [&]() -> fork_task<std::size_t> {
    auto [a, none, c, b] = co_await fork_join(text(0), nothing(), moved(), text(1));
    static_assert(std::is_same_v<decltype(none), std::monostate>);
    EXPECT_EQ(a, std::string(100, 'a'));
    EXPECT_EQ(*c, 7);
    co_await fork_join(nothing(), nothing());
    co_return b.size();
  };
  for (int i = 0; i < 500; ++i) ASSERT_EQ(sync_wait(pool_, all()), 100U);
}

TEST_P(fork_join_on, when_all_keeps_the_order_of_as_many_as_there_are) {
  auto square = [](int n) -> fork_task<int> { co_return n* n; };
  for (const int count : {0, 1, 2, 3, 100, 5000}) {
    auto all = [&]() -> fork_task<std::vector<int>> {
      std::vector<fork_task<int>> children;
      for (int i = 0; i < count; ++i) children.push_back(square(i));
      co_return co_await when_all(std::move(children));
    };
    const std::vector<int> result = sync_wait(pool_, all());
    ASSERT_EQ(result.size(), static_cast<std::size_t>(count));
    for (int i = 0; i < count; ++i) ASSERT_EQ(result[static_cast<std::size_t>(i)], i * i);
  }
}

TEST_P(fork_join_on, children_may_wait_for_timers_and_go_on_elsewhere) {
  std::atomic<int> ended{0};
  auto sleeper = [&](int n) -> fork_task<int> {
    co_await sleep_for(std::chrono::milliseconds(n % 3));
    co_await pool_.schedule();
    ended.fetch_add(1);
    co_return n;
  };
  auto tree = [&](auto self, int depth) -> fork_task<int> {
    if (depth == 0) co_return co_await sleeper(1);
    auto [a, b] = co_await fork_join(self(self, depth - 1), self(self, depth - 1));
    co_return a + b;
  };
  ASSERT_EQ(sync_wait(pool_, tree(tree, 7)), 128);
  ASSERT_EQ(ended.load(), 128);
}

struct failure_at : std::runtime_error {
  explicit failure_at(int depth) : std::runtime_error("at " + std::to_string(depth)) {}
};

fork_task<int> fails_at(int depth, int at, std::atomic<int>& ended) {
  struct count {
    std::atomic<int>& ended;
    ~count() { ended.fetch_add(1); }
  } const counted{ended};
  if (depth == at) throw failure_at(depth);
  if (depth == 0) co_return 1;
  auto [a, b] = co_await fork_join(fails_at(depth - 1, at, ended), fails_at(depth - 1, -1, ended));
  co_return a + b;
}

TEST_P(fork_join_on, an_exception_of_any_depth_comes_when_all_have_ended) {
  constexpr int depth = 8;
  for (int round = 0; round < 1000 / sanitizer_divisor; ++round) {
    const int at = round % (depth + 1);
    std::atomic<int> ended{0};
    try {
      sync_wait(pool_, fails_at(depth, at, ended));
      FAIL() << "no exception";
    } catch (const failure_at& caught) {
      ASSERT_EQ(caught.what(), "at " + std::to_string(at));
    }
    // A full tree, but for what the thrower would have forked.
    ASSERT_EQ(ended.load(), (2 << depth) - 1 - ((2 << at) - 2)) << at;
  }
}

TEST_P(fork_join_on, of_several_exceptions_one_comes_and_the_others_are_counted) {
  auto thrower = []() -> fork_task<> {
    throw std::logic_error("each");
    co_return;
  };
  auto all = [&]() -> fork_task<> {
    std::vector<fork_task<>> children;
    for (int i = 0; i < 10; ++i) children.push_back(thrower());
    co_await when_all(std::move(children));
  };
  ASSERT_THROW(sync_wait(pool_, all()), std::logic_error);
  std::uint64_t dropped = 0;
  for (const worker_statistics& each : pool_.statistics().workers) {
    dropped += each.exceptions_dropped;
  }
  ASSERT_EQ(dropped, 9U);
}

TEST_P(fork_join_on, a_stop_token_reaches_every_child) {
  constexpr int depth = 6;
  std::atomic<int> seen{0};
  auto tree = [&](auto self, int left) -> fork_task<> {
    if (left == 0) {
      const std::stop_token token = co_await stop_token_here();
      EXPECT_TRUE(token.stop_possible());
      while (!token.stop_requested()) co_await sleep_for(1ms);
      seen.fetch_add(1);
      co_return;
    }
    co_await fork_join(self(self, left - 1), self(self, left - 1));
  };
  for (int round = 0; round < 5; ++round) {
    seen = 0;
    std::stop_source source;
    std::thread stopper([&] {
      std::this_thread::sleep_for(5ms);
      source.request_stop();
    });
    sync_wait(pool_, with_stop(source.get_token(), tree(tree, depth)));
    stopper.join();
    ASSERT_EQ(seen.load(), 1 << depth);
  }
  auto without = []() -> fork_task<bool> {
    const std::stop_token token = co_await stop_token_here();
    co_return token.stop_possible();
  };
  ASSERT_FALSE(sync_wait(pool_, without()));
}

fork_task<long> recursion(long depth) {
  if (depth == 0) co_return 0;
  co_return 1 + co_await recursion(depth - 1);
}
fork_task<long> forked_recursion(long depth) {
  if (depth == 0) co_return 0;
  auto one = []() -> fork_task<long> { co_return 1; };
  auto [a, b] = co_await fork_join(forked_recursion(depth - 1), one());
  co_return a + b;
}

// In every build: what makes a call of a jump would need some 100 bytes of stack a level.
TEST_P(fork_join_on, needs_no_stack_however_deep_it_is) {
  const long depth = 1'000'000 / sanitizer_divisor;
  ASSERT_EQ(sync_wait(pool_, recursion(depth)), depth);
  ASSERT_EQ(sync_wait(pool_, forked_recursion(depth)), depth);
}
TEST_P(fork_join_on, needs_no_stack_in_a_loop) {
  auto loop = [](long rounds) -> fork_task<long> {
    long sum = 0;
    for (long i = 0; i < rounds; ++i) {
      auto [a, b] = co_await fork_join(recursion(0), recursion(1));
      sum += a + b + co_await recursion(1);
    }
    co_return sum;
  };
  const long rounds = 1'000'000 / sanitizer_divisor;
  ASSERT_EQ(sync_wait(pool_, loop(rounds)), 2 * rounds);
}

TEST_P(fork_join_on, a_task_may_await_it_and_it_may_await_tasks) {
  auto inner = [&]() -> task<long> {
    co_await sleep_for(1ms);
    co_return co_await fib(10);
  };
  auto outer = [&](std::atomic<long>& sum) -> task<> {
    for (int i = 0; i < 20; ++i) {
      auto [a, b] = co_await fork_join(inner(), fib(10));
      sum += a + b;
    }
  };
  std::atomic<long> sum{0};
  for (int i = 0; i < 10; ++i) spawn(pool_, outer(sum));
  pool_.join();
  ASSERT_EQ(sum.load(), 10 * 20 * 110);
}

TEST(fork_join, off_a_pool_runs_one_after_the_other) {
  std::vector<int> order;
  auto child = [&](int n) -> fork_task<> {
    order.push_back(n);
    co_return;
  };
  auto all = [&]() -> task<> {
    co_await fork_join(child(1), child(2), child(3));
    order.push_back(4);
  };
  detach(all());
  ASSERT_EQ(order, (std::vector{1, 2, 3, 4}));
}

TEST(fork_join, children_run_on_several_workers) {
  pool two(futex_pool(2));
  std::atomic<int> meeting{0};
  auto meets = [&]() -> fork_task<> {
    meeting.fetch_add(1);
    const auto end = std::chrono::steady_clock::now() + 20s;
    while (meeting.load() < 2 && std::chrono::steady_clock::now() < end) {
    }
    EXPECT_EQ(meeting.load(), 2);
    co_return;
  };
  auto both = [&]() -> fork_task<> { co_await fork_join(meets(), meets()); };
  sync_wait(two, both());
}

TEST(fork_join, what_waits_when_the_pool_ends_is_freed_once) {
  auto token = std::make_shared<int>();
  {
    pool two(futex_pool(2));
    std::atomic<int> begun{0};
    auto for_ever = [&](std::shared_ptr<int> kept) -> fork_task<> {
      begun.fetch_add(1);
      co_await sleep_for(1h);
      (void)kept;
    };
    auto tree = [&](auto self, int depth) -> fork_task<> {
      if (depth == 0) {
        co_await for_ever(token);
      } else {
        co_await fork_join(self(self, depth - 1), self(self, depth - 1), self(self, 0));
      }
    };
    auto root = [&]() -> task<> { co_await tree(tree, 4); };
    spawn(two, root());
    while (begun.load() != 31) std::this_thread::sleep_for(1ms);
    two.stop();
  }
  ASSERT_EQ(token.use_count(), 1);
}

TEST(fork_join, a_failure_beside_what_waits_when_the_pool_ends_is_freed) {
  auto token = std::make_shared<int>();
  {
    pool one(futex_pool(1));
    std::atomic<bool> begun{false};
    auto fails = [&]() -> fork_task<> {
      struct failure {
        std::shared_ptr<int> kept;
      };
      throw failure{token};
      co_return;
    };
    auto for_ever = [&]() -> fork_task<> {
      begun = true;
      co_await sleep_for(1h);
    };
    auto root = [&]() -> task<> { co_await fork_join(fails(), for_ever(), fails()); };
    spawn(one, root());
    while (!begun) std::this_thread::sleep_for(1ms);
    one.stop();
  }
  ASSERT_EQ(token.use_count(), 1);
}

TEST(fork_join, a_wait_for_what_the_pools_end_leaves_unfinished_is_an_error) {
  auto one = std::make_unique<pool>(futex_pool(1));
  std::atomic<bool> begun{false};
  auto for_ever = [&]() -> fork_task<> {
    begun = true;
    co_await sleep_for(1h);
  };
  std::thread ender([&] {
    while (!begun) std::this_thread::sleep_for(1ms);
    one.reset();
  });
  try {
    sync_wait(*one, for_ever());
    ADD_FAILURE() << "no exception";
  } catch (const std::system_error& caught) {
    EXPECT_EQ(caught.code(), std::errc::operation_canceled);
  }
  ender.join();
}

TEST(fork_join, an_unstarted_fork_is_freed) {
  auto token = std::make_shared<int>();
  auto holds = [](std::shared_ptr<int> kept) -> fork_task<> {
    (void)kept;
    co_return;
  };
  {
    [[maybe_unused]] const auto never = fork_join(holds(token), holds(token));
  }
  {
    [[maybe_unused]] const auto never = holds(token);
  }
  ASSERT_EQ(token.use_count(), 1);
}

/// A pool of one, which can let events in only from within the forked work itself.
TEST(fork_join, lets_events_in_after_a_slice) {
  pool one(futex_pool(1));
  std::atomic<bool> over{false};
  std::atomic<int> ticks{0};
  auto ticker = [&]() -> task<> {
    while (!over.load()) {
      co_await sleep_for(1ms);
      ticks.fetch_add(1);
    }
  };
  spawn(one, ticker());
  auto busy = [&]() -> fork_task<> {
    const auto begun = std::chrono::steady_clock::now();
    while (std::chrono::steady_clock::now() - begun < 300ms) co_await fib(16);
    over = true;
  };
  sync_wait(one, busy());
  one.join();
  std::uint64_t yields = 0;
  for (const worker_statistics& each : one.statistics().workers) yields += each.fork_yield;
  EXPECT_GT(yields, 10U);
  EXPECT_GT(ticks.load(), 20);
}

}  // namespace
}  // namespace bwos::testing
