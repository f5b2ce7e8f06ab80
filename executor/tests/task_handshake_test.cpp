// SPDX-License-Identifier: Apache-2.0
// T1 of task.hpp: a child's start and its end on another thread, in either order and racing.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <coroutine>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include <bwos/task.hpp>

#include "task_fixture.hpp"

namespace {

using bwos::continuation;
using bwos::coroutine_waiter;
using bwos::detach;
using bwos::task;
using bwos::testing::disposition;
using bwos::testing::shelf;

/// An operation that another thread completes before await_suspend returns: the finisher is first.
/// What tells await_suspend so is relaxed, so that under ThreadSanitizer nothing but the handshake
/// orders the child's end before what its parent does next.
struct ended_by_another_thread {
  std::vector<std::thread>& threads;
  std::atomic<int>& ended;

  [[nodiscard]] bool await_ready() const noexcept { return false; }
  void await_suspend(std::coroutine_handle<> handle) const {
    std::atomic<int>& count = ended;  // the frame, and this in it, may be gone once the child runs
    const int before = count.load(std::memory_order_relaxed);
    threads.emplace_back([handle, &count] {
      handle.resume();
      count.fetch_add(1, std::memory_order_relaxed);
    });
    while (count.load(std::memory_order_relaxed) == before) std::this_thread::yield();
  }
  void await_resume() const noexcept {}
};

TEST(task_handshake, a_child_that_ended_elsewhere_before_its_start_returned_goes_on_at_the_start) {
  std::vector<std::thread> threads;
  std::atomic<int> ended{0};
  auto child = [&]() -> task<std::string> {
    co_await ended_by_another_thread{threads, ended};
    co_return std::string(100, 'x');  // on the heap
  };
  const std::thread::id here = std::this_thread::get_id();
  int went_on_here = 0;
  auto parent = [&]() -> task<> {
    for (int i = 0; i < 100; ++i) {
      const std::string got = co_await child();
      went_on_here += got.size() == 100 && std::this_thread::get_id() == here;
    }
  };
  detach(parent());
  for (std::thread& each : threads) each.join();
  EXPECT_EQ(went_on_here, 100);
}

TEST(task_handshake, a_child_that_ends_elsewhere_after_its_start_returned_takes_its_parent_along) {
  shelf events;
  std::thread::id child_ended, parent_went_on;
  auto child = [&]() -> task<> {
    co_await events.wait();
    child_ended = std::this_thread::get_id();
  };
  auto parent = [&]() -> task<> {
    co_await child();
    parent_went_on = std::this_thread::get_id();
  };
  detach(parent());
  std::thread other([&] { events.run_one(); });
  const std::thread::id expected = other.get_id();
  other.join();
  EXPECT_EQ(child_ended, expected);
  EXPECT_EQ(parent_went_on, expected);
}

/// Two threads, each running what the other hands it: a child always ends on the thread where its
/// parent's await_suspend is not, while that one returns.
class two_threads {
  struct awaiter;

 public:
  awaiter hop() noexcept;
  void serve(unsigned which) noexcept {
    here_ = which;
    unsigned idle = 0;
    while (!done_.load(std::memory_order_acquire)) {
      if (continuation* work = inbox_[which].exchange(nullptr, std::memory_order_acquire)) {
        work->invoke(*work, disposition::run);
      } else if (++idle % 64 == 0) {
        std::this_thread::yield();
      }
    }
  }
  void finish() noexcept { done_.store(true, std::memory_order_release); }

  /// Not inlined, because compilers keep a thread_local's address across a co_await.
  [[gnu::noinline]] static unsigned here() noexcept { return here_; }

 private:
  /// Lets the other thread begin with what it was handed, and perhaps end it: so both orders occur.
  /// Relaxed, in order to order nothing.
  void let_child_end(unsigned to) const noexcept {
    while (inbox_[to].load(std::memory_order_relaxed) != nullptr) std::this_thread::yield();
    for (int i = 0; i < 500; ++i) static_cast<void>(done_.load(std::memory_order_relaxed));
  }

  static inline thread_local unsigned here_ = 0;
  std::array<std::atomic<continuation*>, 2> inbox_{};
  std::atomic<bool> done_{false};
};

struct two_threads::awaiter : coroutine_waiter {
  explicit awaiter(two_threads& between) noexcept : at(between) {}
  [[nodiscard]] bool await_ready() const noexcept { return false; }
  template <class Promise>
  void await_suspend(std::coroutine_handle<Promise> handle) noexcept {
    thread_local unsigned hops = 0;
    const bool linger = ++hops % 2 == 0;
    two_threads& between = at;  // the frame, and this in it, may be gone once the store is seen
    const unsigned to = 1 - here();
    set(handle);
    between.inbox_[to].store(this, std::memory_order_release);
    if (linger) between.let_child_end(to);
  }
  void await_resume() const noexcept {}
  two_threads& at;
};

two_threads::awaiter two_threads::hop() noexcept {
  return awaiter(*this);
}

TEST(task_handshake, children_that_race_with_their_start_deliver_every_result_once) {
  constexpr int rounds = 100'000;
  two_threads threads;
  std::int64_t sum = 0;  // plain: the handshake alone orders what parent and child write
  int at_start = 0;
  auto leaf = [&](int i) -> task<std::int64_t> {
    const unsigned before = two_threads::here();
    co_await threads.hop();
    EXPECT_NE(before, two_threads::here());
    sum += i;
    if (i % 1000 == 7) throw i;
    co_return i;
  };
  auto middle = [&](int i) -> task<std::int64_t> { co_return co_await leaf(i) + 1; };
  auto body = [&]() -> task<> {
    co_await threads.hop();
    for (int i = 0; i < rounds; ++i) {
      const unsigned before = two_threads::here();
      try {
        sum += co_await middle(i);
      } catch (int thrown) {
        sum += thrown + 1;
      }
      at_start += two_threads::here() == before;
    }
    threads.finish();
  };
  std::thread other([&] { threads.serve(1); });
  detach(body());
  threads.serve(0);
  other.join();
  EXPECT_EQ(sum, std::int64_t{rounds} * (rounds - 1) + rounds);
  RecordProperty("finisher_first", at_start);
  RecordProperty("starter_first", rounds - at_start);
}

}  // namespace
