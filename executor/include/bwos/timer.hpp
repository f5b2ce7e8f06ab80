// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bwos/timer_entry.hpp>
#include <bwos/waiter.hpp>
#include <chrono>

namespace bwos {

class timer_service;

/// Awaitable: the coroutine goes on once `when` has passed, on a worker of the pool (of the group)
/// on which it waits; to the millisecond, never early. To be awaited on a worker of a pool.
/// Allocates nothing.
class [[nodiscard]] sleep_until : coroutine_waiter, timer_entry {
 public:
  using clock = std::chrono::steady_clock;

  explicit sleep_until(clock::time_point when) noexcept : timer_entry(&on_time), when_(when) {}
  /// The calling thread is a worker of a pool.
  [[nodiscard]] static bool is_possible_here() noexcept;

  [[nodiscard]] bool await_ready() const noexcept { return false; }
  template <class Promise>
  void await_suspend(std::coroutine_handle<Promise> waiting) noexcept {
    set(waiting);
    arm();
  }
  void await_resume() const noexcept {}

 private:
  static void on_time(timer_entry& self) noexcept;
  void arm() noexcept;

  clock::time_point when_;
  timer_service* timers_ = nullptr;
};

[[nodiscard]] inline sleep_until sleep_for(sleep_until::clock::duration time) noexcept {
  return sleep_until(sleep_until::clock::now() + time);
}

}  // namespace bwos
