// SPDX-License-Identifier: Apache-2.0
// Fork-join without memory, and how little it takes in a steady state.
#include <bwos/fork/memory.hpp>

#include <gtest/gtest.h>

#include <bwos/fork_join.hpp>
#include <bwos/sync_wait.hpp>
#include <bwos/task_group.hpp>
#include <new>

#include "counting_new.hpp"
#include "pool_fixture.hpp"

namespace bwos::testing {
namespace {

using counting_new::no_memory;

/// More entries than a fork queue has at first.
void nested(int depth, std::atomic<int>& runs) {
  runs.fetch_add(1);
  if (depth == 0) return;
  invoke([&] { nested(depth - 1, runs); }, [&] { runs.fetch_add(1); });
}

TEST(fork_memory, a_queue_that_cannot_grow_makes_calls_of_forks) {
  pool one(options_of(on_futexes, 1));
  std::atomic<int> runs{0};
  sync_wait(one, [&] {
    const no_memory now;
    nested(3000, runs);
  });
  ASSERT_EQ(runs.load(), 6001);
  runs = 0;
  sync_wait(one, [&] { nested(3000, runs); });  // it grows when it can
  ASSERT_EQ(runs.load(), 6001);
}

TEST(fork_memory, a_group_that_finds_none_throws_and_goes_on) {
  pool one(options_of(on_futexes, 1));
  std::atomic<int> runs{0};
  sync_wait(one, [&] {
    struct large {
      std::atomic<int>& runs;
      char much[2 * detail::fork_block_max] = {};
      void operator()() const { runs.fetch_add(1); }
    };
    task_group group(one);
    group.run(large{runs});
    {
      const no_memory now;
      EXPECT_THROW(group.run(large{runs}), std::bad_alloc);
    }
    group.run(large{runs});
    group.wait();
  });
  ASSERT_EQ(runs.load(), 2);
}

fork_task<long> fib(long n) {
  if (n < 2) co_return n;
  auto [a, b] = co_await fork_join(fib(n - 1), fib(n - 2));
  co_return a + b;
}

/// Each allocation of a tree fails once.
TEST(fork_memory, a_coroutine_that_finds_none_hands_on_bad_alloc) {
  for (std::size_t first = 0; first < 20; ++first) {
    pool one(options_of(on_futexes, 1));  // whose worker has kept nothing yet
    bool thrown = false;
    try {
      sync_wait(one, [&] {
        const no_memory now(first, first);
        return sync_wait(one, fib(10));
      });
    } catch (const std::bad_alloc&) {
      thrown = true;
    }
    ASSERT_EQ(sync_wait(one, fib(10)), 55);
    if (first == 0) {
      ASSERT_TRUE(thrown);
    }
  }
}

#if !defined(__SANITIZE_ADDRESS__)
TEST(fork_memory, a_steady_state_allocates_nothing) {
  pool one(options_of(on_futexes, 1));
  sync_wait(one, [&] {
    // Where the stack ends a chain of jumps (forks.hpp, F3) differs from the first turn to the
    // next.
    for (int i = 0; i < 3; ++i) EXPECT_EQ(sync_wait(one, fib(15)), 610);
    const std::size_t before = counting_new::allocations();
    for (int i = 0; i < 10; ++i) EXPECT_EQ(sync_wait(one, fib(15)), 610);
    EXPECT_EQ(counting_new::allocations() - before, 10U) << "the root of each";
  });
}
#endif

}  // namespace
}  // namespace bwos::testing
