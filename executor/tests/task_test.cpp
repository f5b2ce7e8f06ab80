// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <coroutine>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>

#include <bwos/task.hpp>

#include "counting_new.hpp"
#include "task_fixture.hpp"

namespace {

using bwos::detach;
using bwos::task;
using bwos::testing::shelf;

static_assert(!std::is_copy_constructible_v<task<int>>);
static_assert(std::is_nothrow_move_constructible_v<task<int>>);
static_assert(std::is_nothrow_move_assignable_v<task<int>>);

/// Counts how many of its kind are alive: what a frame that is freed must give back.
struct counted {
  static inline int alive = 0;
  counted() { ++alive; }
  counted(const counted&) { ++alive; }
  ~counted() { --alive; }
};

struct at_once {
  bool await_ready() const noexcept { return false; }
  bool await_suspend(std::coroutine_handle<>) const noexcept { return false; }
  int await_resume() const noexcept { return 1; }
};

template <class T>
task<T> give(T value) {
  co_return std::move(value);
}

// ---- values, exceptions, ownership

TEST(task, does_not_run_until_it_is_awaited) {
  bool ran = false;
  auto child = [&]() -> task<> {
    ran = true;
    co_return;
  };
  auto parent = [&]() -> task<> {
    task<> kept = child();
    EXPECT_FALSE(ran);
    co_await std::move(kept);
    EXPECT_TRUE(ran);
  };
  detach(parent());
  EXPECT_TRUE(ran);
}

TEST(task, delivers_values_move_only_ones_and_references) {
  const std::string base = "kept";
  std::string target = "target";
  auto mutable_reference = [&]() -> task<std::string&> { co_return target; };
  auto constant_reference = [&]() -> task<const std::string&> { co_return base; };
  auto braces = []() -> task<std::pair<int, std::string>> { co_return {7, "seven"}; };
  bool done = false;
  auto parent = [&]() -> task<> {
    EXPECT_EQ(co_await give(42), 42);
    const std::unique_ptr<int> owned = co_await give(std::make_unique<int>(3));
    EXPECT_EQ(*owned, 3);
    std::string& got = co_await mutable_reference();
    EXPECT_EQ(&got, &target);
    const std::string& constant = co_await constant_reference();
    EXPECT_EQ(&constant, &base);
    const auto pair = co_await braces();
    EXPECT_EQ(pair.second, "seven");
    std::exception_ptr as_value = co_await give(std::make_exception_ptr(1));
    EXPECT_TRUE(as_value);
    done = true;
  };
  detach(parent());
  EXPECT_TRUE(done);
}

TEST(task, delivers_exceptions_through_every_level) {
  auto thrower = [](int depth, auto& self) -> task<int> {
    if (depth == 0) throw std::runtime_error("deep");
    co_return co_await self(depth - 1, self);
  };
  auto thrower_of_nothing = []() -> task<> {
    throw std::logic_error("void");
    co_return;
  };
  int caught = 0;
  auto parent = [&]() -> task<> {
    try {
      co_await thrower(10, thrower);
    } catch (const std::runtime_error& error) {
      caught += std::string(error.what()) == "deep";
    }
    try {
      co_await thrower_of_nothing();
    } catch (const std::logic_error&) {
      ++caught;
    }
  };
  detach(parent());
  EXPECT_EQ(caught, 2);
}

TEST(task, delivers_an_exception_thrown_after_a_suspension) {
  shelf events;
  auto child = [&]() -> task<int> {
    co_await events.wait();
    throw std::runtime_error("late");
  };
  bool caught = false;
  auto parent = [&]() -> task<> {
    try {
      co_await child();
    } catch (const std::runtime_error&) {
      caught = true;
    }
  };
  detach(parent());
  EXPECT_FALSE(caught);
  events.run_one();
  EXPECT_TRUE(caught);
}

TEST(task, frees_its_frame_whether_unstarted_finished_suspended_or_overwritten) {
  shelf events;
  auto waits = [&](counted) -> task<> { co_await events.wait(); };
  counted::alive = 0;
  {
    task<> unstarted = waits({});
  }
  EXPECT_EQ(counted::alive, 0);
  {
    task<> overwritten = waits({});
    overwritten = waits({});
    EXPECT_EQ(counted::alive, 1);
    task<> taken = std::move(overwritten);
    EXPECT_FALSE(overwritten);  // NOLINT: moved-from tasks are empty
    EXPECT_TRUE(taken);
  }
  EXPECT_EQ(counted::alive, 0);

  // Suspended: a task that nobody detached, started by a coroutine of another kind.
  struct foreign {
    struct promise_type {
      foreign get_return_object() {
        return {std::coroutine_handle<promise_type>::from_promise(*this)};
      }
      std::suspend_never initial_suspend() noexcept { return {}; }
      std::suspend_always final_suspend() noexcept { return {}; }
      void return_void() {}
      void unhandled_exception() { std::terminate(); }
    };
    std::coroutine_handle<promise_type> frame;
  };
  auto owner = [](task<> inner) -> foreign { co_await std::move(inner); };
  auto level = [&](counted) -> task<> { co_await waits({}); };
  foreign started = owner(level({}));
  EXPECT_GE(counted::alive, 2);
  events.forget();
  started.frame.destroy();
  EXPECT_EQ(counted::alive, 0);

  // Discarding one whose root is foreign frees nothing: it has an owner.
  started = owner(level({}));
  EXPECT_TRUE(events.discard_one());
  EXPECT_GE(counted::alive, 2);
  started.frame.destroy();
  EXPECT_EQ(counted::alive, 0);
}

TEST(task, ends_a_detached_chain_with_its_frames_freed_before_the_callback) {
  shelf events;
  counted::alive = 0;
  int ends = 0;
  auto body = [&](counted) -> task<> { co_await events.wait(); };
  detach(
      body({}),
      [](void* context) noexcept {
        EXPECT_EQ(counted::alive, 0);
        ++*static_cast<int*>(context);
      },
      &ends);
  EXPECT_EQ(ends, 0);
  EXPECT_EQ(counted::alive, 1);
  EXPECT_TRUE(events.run_one());
  EXPECT_EQ(ends, 1);
}

TEST(task, an_await_allocates_nothing_and_a_child_one_frame_which_the_next_has) {
  shelf events;
  std::size_t ready = 1, suspended = 1, child = 0;
  auto body = [&]() -> task<> {
    const std::size_t start = counting_new::allocations();
    for (int i = 0; i < 100; ++i) co_await at_once{};
    ready = counting_new::allocations() - start;
    for (int i = 0; i < 100; ++i) co_await events.wait();
    suspended = counting_new::allocations() - start - ready;
    for (int i = 0; i < 100; ++i) co_await give(i);
    child = counting_new::allocations() - start - ready - suspended;
  };
  detach(body());
  while (events.run_one()) {
  }
  EXPECT_EQ(ready, 0U);
  EXPECT_EQ(suspended, 0U);
  // Compilers may put a child's frame into its parent's.
#if defined(__SANITIZE_ADDRESS__)
  EXPECT_LE(child, 100U);
#else
  EXPECT_LE(child, 1U);
#endif
}

TEST(task_death, an_exception_that_escapes_a_detached_task_terminates) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  auto body = []() -> task<> {
    throw std::runtime_error("escapes");
    co_return;
  };
  EXPECT_DEATH(detach(body()), "escapes");
}

// ---- T2, T3: the stack

/// Range of stack addresses at which it was called. Frame addresses, because a coroutine's locals
/// lie in its frame, and AddressSanitizer moves an ordinary function's elsewhere.
struct stack_range {
  [[gnu::noinline]] void here() noexcept {
    const auto at = reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0));
    lowest = std::min(lowest, at);
    highest = std::max(highest, at);
  }
  [[nodiscard]] std::uintptr_t depth() const noexcept { return highest - lowest; }
  std::uintptr_t lowest = UINTPTR_MAX, highest = 0;
};

constexpr int million = 1'000'000;
constexpr std::uintptr_t few_frames = 4096;

TEST(task_stack, a_million_awaits_of_ready_operations_run_in_constant_stack) {
  stack_range stack;
  std::int64_t sum = 0;
  auto body = [&]() -> task<> {
    for (int i = 0; i < million; ++i) {
      sum += co_await at_once{};
      co_await std::suspend_never{};
      stack.here();
    }
  };
  detach(body());
  EXPECT_EQ(sum, million);
  EXPECT_EQ(stack.depth(), 0U);
}

TEST(task_stack, a_million_children_that_end_at_once_run_in_constant_stack) {
  stack_range stack;
  std::int64_t sum = 0;
  auto leaf = [&](int value) -> task<int> {
    stack.here();
    co_return value;
  };
  auto middle = [&](int value) -> task<int> { co_return co_await leaf(value); };
  auto body = [&]() -> task<> {
    for (int i = 0; i < million; ++i) sum += co_await middle(1);
  };
  detach(body());
  EXPECT_EQ(sum, million);
  EXPECT_EQ(stack.depth(), 0U);
}

TEST(task_stack, a_million_children_that_end_later_run_in_bounded_stack) {
  stack_range stack;
  shelf events;
  std::int64_t sum = 0;
  auto leaf = [&](int i) -> task<int> {
    if (i % 3 != 0) co_await events.wait();
    stack.here();
    if (i % 5 == 0) co_await events.wait();
    co_return 1;
  };
  auto middle = [&](int i) -> task<int> { co_return co_await leaf(i) + co_await leaf(i + 1) - 1; };
  auto body = [&]() -> task<> {
    for (int i = 0; i < million / 2; ++i) sum += co_await middle(i);
  };
  detach(body());
  while (events.run_one()) {
  }
  EXPECT_EQ(sum, million / 2);
  EXPECT_LT(stack.depth(), few_frames);
}

TEST(task_stack, nested_tasks_use_stack_by_their_depth_alone) {
  stack_range stack;
  shelf events;
  auto nest = [&](int depth, auto& self) -> task<int> {
    if (depth == 0) {
      co_await events.wait();
      co_return 0;
    }
    co_return 1 + co_await self(depth - 1, self);
  };
  int total = 0;
  auto body = [&]() -> task<> {
    for (int i = 0; i < 1000; ++i) {
      total += co_await nest(100, nest);
      stack.here();
    }
  };
  detach(body());
  while (events.run_one()) {
  }
  EXPECT_EQ(total, 100'000);
  EXPECT_EQ(stack.depth(), 0U);
}

// ---- T4: discarding

TEST(task_discard, abandoning_a_suspended_chain_frees_every_frame_and_runs_nothing_more) {
  for (int depth = 0; depth < 20; ++depth) {
    shelf events;
    counted::alive = 0;
    int ends = 0;
    bool went_on = false;
    auto nest = [&](int levels, counted, auto& self) -> task<int> {
      const auto kept = std::make_unique<int>(levels);
      if (levels == 0) {
        co_await events.wait();
      } else {
        co_await self(levels - 1, counted(), self);
      }
      went_on = true;
      co_return *kept;
    };
    auto body = [&](counted) -> task<> {
      co_await give(1);  // a finished sibling leaves no trace in the chain
      co_await nest(depth, counted(), nest);
      went_on = true;
    };
    detach(body({}), [](void* context) noexcept { ++*static_cast<int*>(context); }, &ends);
    EXPECT_GE(counted::alive, depth + 2);
    EXPECT_TRUE(events.discard_one());
    EXPECT_EQ(counted::alive, 0);
    EXPECT_EQ(ends, 1);
    EXPECT_FALSE(went_on);
  }
}

TEST(task_discard, a_chain_that_was_resumed_before_is_freed_where_it_waits_next) {
  shelf events;
  counted::alive = 0;
  int ends = 0;
  auto child = [&](counted) -> task<> {
    co_await events.wait();
    co_await events.wait();
  };
  auto body = [&](counted) -> task<> {
    co_await child({});
    co_await child({});
  };
  detach(body({}), [](void* context) noexcept { ++*static_cast<int*>(context); }, &ends);
  EXPECT_TRUE(events.run_one());
  EXPECT_TRUE(events.run_one());
  EXPECT_TRUE(events.run_one());
  EXPECT_TRUE(events.discard_one());
  EXPECT_FALSE(events.run_one());
  EXPECT_EQ(counted::alive, 0);
  EXPECT_EQ(ends, 1);
}

}  // namespace
