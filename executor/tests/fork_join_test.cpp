// SPDX-License-Identifier: Apache-2.0
// Fork-join of coroutines: results, exceptions, stop tokens, stack, discards, and what it does
// beside events.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <atomic>
#include <bwos/fork_join.hpp>
#include <bwos/pool.hpp>
#include <bwos/sync_wait.hpp>
#include <bwos/timer.hpp>
#include <chrono>
#include <memory>
#include <ranges>
#include <stdexcept>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "pool_fixture.hpp"
#include "task_fixture.hpp"

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

struct failure_at : std::runtime_error {
  explicit failure_at(int depth) : std::runtime_error("at " + std::to_string(depth)) {}
};

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

/// A tree of any shape, by all ways to fork.
std::uint64_t mixed(std::uint64_t value) {
  return (value ^ (value >> 29)) * 0xbf58476d1ce4e5b9U + 1;
}
std::uint64_t called(std::uint64_t seed, int depth) {
  std::uint64_t sum = seed;
  if (depth == 0) return sum;
  for (std::uint64_t i = 0; i < seed % 4; ++i)
    sum = mixed(sum + called(mixed(seed + i), depth - 1));
  return sum;
}
fork_task<std::uint64_t> forked(std::uint64_t seed, int depth) {
  std::uint64_t sum = seed;
  if (depth == 0 || seed % 4 == 0) co_return sum;
  if (seed % 4 == 1) co_return mixed(sum + co_await forked(mixed(seed), depth - 1));
  if (seed % 4 == 2) {
    auto [a, b] =
        co_await fork_join(forked(mixed(seed), depth - 1), forked(mixed(seed + 1), depth - 1));
    co_return mixed(mixed(sum + a) + b);
  }
  std::vector<fork_task<std::uint64_t>> children;
  for (std::uint64_t i = 0; i < 3; ++i) children.push_back(forked(mixed(seed + i), depth - 1));
  for (const std::uint64_t each : co_await when_all(std::move(children))) sum = mixed(sum + each);
  co_return sum;
}

TEST_P(fork_join_on, computes_what_calls_compute) {
  for (std::uint64_t seed = 0; seed < 1000U / sanitizer_divisor; ++seed) {
    ASSERT_EQ(sync_wait(pool_, forked(mixed(seed), 8)), called(mixed(seed), 8)) << seed;
  }
}

TEST_P(fork_join_on, several_threads_may_wait_at_once) {
  std::atomic<int> right{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      for (int round = 0; round < 50; ++round) right += sync_wait(pool_, fib(10)) == 55 ? 1 : 0;
    });
  }
  for (std::thread& each : threads) each.join();
  ASSERT_EQ(right.load(), 400);
}

TEST_P(fork_join_on, results_are_destroyed_once_whatever_becomes_of_the_others) {
  std::atomic<int> alive{0};
  struct counted {
    explicit counted(std::atomic<int>& in) : count(in) { count.fetch_add(1); }
    counted(counted&& other) : count(other.count) { count.fetch_add(1); }
    ~counted() { count.fetch_sub(1); }
    std::atomic<int>& count;
  };
  auto child = [&](int n, int thrower) -> fork_task<counted> {
    if (n == thrower) throw failure_at(n);
    co_return counted(alive);
  };
  auto all = [&](int thrower) -> fork_task<int> {
    std::vector<fork_task<counted>> children;
    for (int i = 0; i < 5; ++i) children.push_back(child(i, thrower));
    const std::vector<counted> results = co_await when_all(std::move(children));
    auto [a, b, c] = co_await fork_join(child(5, thrower), child(6, thrower), child(7, thrower));
    co_return alive.load();
  };
  for (int round = 0; round < 900 / sanitizer_divisor; ++round) {
    try {
      EXPECT_GE(sync_wait(pool_, all(round % 9)), 8);
      EXPECT_EQ(round % 9, 8) << "no exception";
    } catch (const failure_at&) {
    }
    ASSERT_EQ(alive.load(), 0) << round;
  }
}

TEST_P(fork_join_on, a_pair_that_one_child_returns_stays_a_pair) {
  auto one = []() -> fork_task<std::pair<int, long>> { co_return std::pair{1, 2L}; };
  auto all = [&]() -> fork_task<long> {
    auto result = co_await fork_join(one());
    static_assert(std::is_same_v<decltype(result), std::tuple<std::pair<int, long>>>);
    co_return std::get<0>(result).second;
  };
  ASSERT_EQ(sync_wait(pool_, all()), 2);
}

TEST_P(fork_join_on, when_all_takes_a_view_that_makes_the_children) {
  const auto numbered = [](int n) -> fork_task<int> { co_return n; };
  const auto nothing = [](int) -> task<> { co_return; };
  const auto all = [&](int count) -> fork_task<int> {
    const auto numbers = std::views::iota(0, count);
    auto results = co_await when_all(numbers | std::views::transform(numbered));
    co_await when_all(numbers | std::views::transform(nothing));
    if (results.size() != static_cast<std::size_t>(count)) co_return -1;
    int next = 0;
    for (const int each : results) {
      if (each != next || results[static_cast<std::size_t>(next)] != next) co_return -1;
      ++next;
    }
    co_return next;
  };
  for (const int count : {0, 1, 2, 3, 1000}) ASSERT_EQ(sync_wait(pool_, all(count)), count);
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

/// Who stands at depth `at` of the leftmost path stops all; leaves end when they are told.
fork_task<> stops_at(pool& where, std::stop_source& source, int depth, int at,
                     std::atomic<int>& told) {
  if (depth == at) source.request_stop();
  if (depth != 0) {
    co_await fork_join(stops_at(where, source, depth - 1, -1, told),
                       stops_at(where, source, depth - 1, at, told));
    co_return;
  }
  const std::stop_token token = co_await stop_token_here();
  while (!token.stop_requested()) co_await where.yield();
  told.fetch_add(1);
}

TEST_P(fork_join_on, a_stop_request_from_any_depth_reaches_all) {
  constexpr int depth = 4;
  for (int round = 0; round < 1000 / sanitizer_divisor; ++round) {
    std::stop_source source;
    std::atomic<int> told{0};
    sync_wait(pool_, with_stop(source.get_token(),
                               stops_at(pool_, source, depth, round % (depth + 1), told)));
    ASSERT_EQ(told.load(), 1 << depth) << round;
  }
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

TEST_P(fork_join_on, uses_no_processor_when_all_has_ended) {
  const auto used = [] {
    rusage all{};
    ::getrusage(RUSAGE_SELF, &all);
    return std::chrono::seconds(all.ru_utime.tv_sec + all.ru_stime.tv_sec) +
           std::chrono::microseconds(all.ru_utime.tv_usec + all.ru_stime.tv_usec);
  };
  ASSERT_EQ(sync_wait(pool_, fib(20)), 6765);
  std::this_thread::sleep_for(150ms);  // the monitor's last looks
  const auto before = used();
  std::this_thread::sleep_for(100ms);
  EXPECT_LT(used() - before, 20ms);
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

TEST(fork_join, a_failure_beside_what_is_discarded_off_a_pool_is_freed) {
  auto token = std::make_shared<int>();
  shelf outside;
  auto fails = [&]() -> fork_task<> {
    struct failure {
      std::shared_ptr<int> kept;
    };
    throw failure{token};
    co_return;
  };
  auto waits = [&]() -> fork_task<> { co_await outside.wait(); };
  auto root = [&]() -> task<> { co_await fork_join(fails(), waits(), waits()); };
  detach(root());
  ASSERT_EQ(token.use_count(), 2);
  ASSERT_TRUE(outside.discard_one());
  ASSERT_EQ(token.use_count(), 1);
}

/// The second child is a call, as the waits below it have used up the depth; it ends up discarded
/// before the first.
TEST(fork_join, a_call_that_is_discarded_leaves_the_frames_of_its_forked_siblings_alone) {
  options shallow = futex_pool(2);
  shallow.wait_depth = 1;
  auto token = std::make_shared<int>();
  {
    pool two(shallow);
    std::atomic<bool> stolen{false};
    std::atomic<bool> second_waits{false};
    std::atomic<bool> first_waits{false};
    auto first = [&](std::shared_ptr<int> kept) -> fork_task<> {
      EXPECT_TRUE(eventually([&] { return second_waits.load(); }));
      first_waits = true;
      co_await sleep_for(2h);
      (void)kept;
    };
    auto second = [&](std::shared_ptr<int> kept) -> fork_task<> {
      second_waits = true;
      co_await sleep_for(1h);
      (void)kept;
    };
    auto root = [&]() -> task<> { co_await fork_join(first(token), second(token), second(token)); };
    heap_call::post(two, [&] {
      // One worker waits for the second half, and steals from what that forks.
      invoke([&] { EXPECT_TRUE(eventually([&] { return stolen.load(); })); },
             [&] {
               stolen = true;
               detach(root());
             });
    });
    ASSERT_TRUE(eventually([&] { return first_waits.load(); }));
    two.stop();
  }
  ASSERT_EQ(token.use_count(), 1);
}

TEST(fork_join, what_attached_threads_run_of_a_pool_of_none) {
  pool none(futex_pool(0));
  std::thread attached([&] { none.attach(); });
  ASSERT_EQ(sync_wait(none, fib(16)), 987);
  none.stop();
  attached.join();
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

TEST(fork_join, join_waits_for_the_coroutine_that_a_thread_waits_for) {
  pool one(futex_pool(1));
  std::atomic<bool> begun{false};
  std::atomic<bool> ended{false};
  auto sleeper = [&]() -> fork_task<> {
    begun = true;
    co_await sleep_for(30ms);
    ended = true;
  };
  std::thread waiter([&] { sync_wait(one, sleeper()); });
  EXPECT_TRUE(eventually([&] { return begun.load(); }));
  one.join();
  EXPECT_TRUE(ended.load());
  waiter.join();
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
