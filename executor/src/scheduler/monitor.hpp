// SPDX-License-Identifier: Apache-2.0
// Sees what workers inside long tasks cannot tell: a thread that looks at them while any is awake,
// and wakes a sleeper for what waits behind such a task. It looks every five milliseconds, and
// every millisecond where a turn lasts, tasks are long or it has just been woken. So a worker need
// not wake anybody for every little that it leaves behind; nearly always it comes to that itself,
// sooner than a sleeper would.
//
// INVARIANTS
// M1  It sleeps only if, after it has said so (asleep_, seq_cst), it has seen all workers parked.
//     A worker that leaves its place later (idle_set::leave, seq_cst) sees asleep_ whenever it
//     looks. So while work is left behind the monitor is awake, or is being woken.
// M2  What waits behind a task is open to thieves (worker::post, before_task), and its worker's
//     count of tasks stands still. Two looks at the same count with something to steal: the task is
//     a long one. What the second finds, a woken sleeper finds (idle_set.hpp, I1).
// Tests: pool_test (a_task_that_waits_for_the_one_it_has_posted_does_not_wait_for_ever,
// nothing_waits_for_the_end_of_a_long_task_though_all_were_short_before), lane_test
// (an_entry_of_age_is_served_above_the_cap), tests/simulation (pool_seldom)
#pragma once

#include <cstdint>
#include <vector>

#include <bwos/base/atomic.hpp>
#include "base/futex_parker.hpp"
#include "base/ticks.hpp"

namespace bwos {

class scheduler;

class monitor {
 public:
  /// `workers_max`: that the pool can have.
  monitor(scheduler& all, unsigned workers_max) : all_(all), begun_(workers_max) {}

  /// On a thread of its own, when there is, or will be, more than one worker; until the pool stops.
  void run() noexcept;

  /// Any thread, after it has left something behind. A load, unless the monitor sleeps.
  void wake() noexcept {
    // [monitor.asleep.look] seq_cst: ordered behind the caller's leaving its place (M1). Partner:
    // [monitor.asleep].
    if (asleep_.load(std::memory_order_seq_cst)) [[unlikely]] {
      parker_.wake();
    }
  }
  /// A worker that forks, after it has said so (fork_worker.hpp, W1).
  void wake_for_forks() noexcept {
    // [monitor.asleep.forks] seq_cst: behind the worker's in_use_. Partner: [monitor.asleep].
    // [monitor.resting.look] seq_cst: behind the worker's in_use_. Partner: [monitor.resting].
    if (asleep_.load(std::memory_order_seq_cst) || resting_.load(std::memory_order_seq_cst)) {
      parker_.wake();
    }
  }
  /// Any thread: ends its sleep, now or when it begins. For what M1 does not cover: a new worker,
  /// the pool's stop.
  void wake_for_certain() noexcept { parker_.wake(); }
  /// What its sleep ends by: for the timers that it keeps.
  [[nodiscard]] futex_parker& parker() noexcept { return parker_; }

 private:
  bool look(bool anybody_awake) noexcept;
  void look_at_forks_alone() noexcept;
  [[nodiscard]] bool is_over(ticks turn_began) const noexcept;
  [[nodiscard]] bool is_late(ticks turn_began) const noexcept;
  void sleep(std::int64_t limit_ms) noexcept;

  scheduler& all_;
  atomic<bool> asleep_{false};
  atomic<bool> resting_{false};  // asleep, where there is one worker, but for what that forks
  unsigned quiet_ = 0;           // looks in a row that found nothing to look at
  futex_parker parker_;
  std::vector<std::uint64_t> begun_;  // tasks of each worker at the last look
  bool closely_ = true;               // it has slept: nothing is known of its workers
};

}  // namespace bwos
