// SPDX-License-Identifier: Apache-2.0
#include "scheduler/monitor.hpp"

#include <algorithm>
#include <utility>

#include "scheduler/scheduler.hpp"
#include "scheduler/worker.hpp"

namespace bwos {
namespace {

/// Between two looks where something may be waiting: what waits behind a long task does so for two
/// of them at most.
constexpr std::int64_t close_ms = 1;
/// Between two looks while workers get on with short tasks. A look takes the processor from one of
/// them for a moment, and cuts its time slice short: once a millisecond that was 6 to 11 % of a
/// server's CPU and a third of its p99 (closed loop, two workers, 100 to 1,000 connections).
constexpr std::int64_t wide_ms = 5;
/// Looks that find all workers parked before it sleeps: a guess, so that it is not woken for every
/// request of a server with little to do.
constexpr unsigned quiet_looks = 10;
bool has_something_to_steal(worker& victim) noexcept {
  const worker_queue::thief blocks = victim.thief();
  const block_range range = blocks.in_use();
  for (std::size_t i = 0; i < range.count; ++i) {
    if (blocks.sample(range[i])) return true;
  }
  return false;
}

}  // namespace

void monitor::run() noexcept {
  while (!all_.stopping()) {
    if (all_.slots() == 1) {
      look_at_forks_alone();
      continue;
    }
    quiet_ = all_.all_parked() ? quiet_ + 1 : 0;
    if (quiet_ <= quiet_looks) {
      const std::int64_t next_ms = look(quiet_ == 0) ? close_ms : wide_ms;
      sleep(next_ms);
      continue;
    }
    // [monitor.asleep] seq_cst: before the look that follows (M1). Partner: [monitor.asleep.look].
    asleep_.store(true, std::memory_order_seq_cst);
    if (all_.all_parked()) sleep(-1);
    // [monitor.awake] relaxed: who sees it late wakes it once more. Partner:
    // [monitor.asleep.look].
    asleep_.store(false, std::memory_order_relaxed);
    quiet_ = 0;
    closely_ = true;
  }
}

/// One worker has nobody to be woken for it, and keeps its deadlines itself.
void monitor::look_at_forks_alone() noexcept {
  worker& only = all_.slot(0);
  if (only.forks().in_use()) {
    quiet_ = 0;
    if (is_over(only.time().turn_began())) only.forks().ask_to_yield();
    parker_.wait(close_ms);
  } else if (++quiet_ <= quiet_looks) {
    parker_.wait(wide_ms);
  } else {
    // [monitor.resting] seq_cst: before the look that follows (M1). Partner:
    // [monitor.resting.look].
    resting_.store(true, std::memory_order_seq_cst);
    if (!only.forks().in_use()) parker_.wait(-1);
    // [monitor.rested] relaxed: who sees it late wakes it once more. Partner:
    // [monitor.resting.look].
    resting_.store(false, std::memory_order_relaxed);
    quiet_ = 0;
  }
}

/// `limit_ms` at most (negative: no limit), and no longer than to the first deadline. One that has
/// passed is being seen to: a worker was woken for it, or all are awake.
void monitor::sleep(std::int64_t limit_ms) noexcept {
  const std::int64_t deadline_ms = all_.timers.wait_ms();
  if (deadline_ms >= 0) {
    const std::int64_t until_ms = std::max(deadline_ms, close_ms);
    limit_ms = limit_ms < 0 ? until_ms : std::min(limit_ms, until_ms);
  }
  parker_.wait(limit_ms);
}

/// Its worker's turn has lasted for so long that it may be in a long task. Or it was preempted: the
/// next look tells.
bool monitor::is_late(ticks turn_began) const noexcept {
  return turn_began != 0 && static_cast<std::int64_t>(now_ticks() - turn_began) >
                                static_cast<std::int64_t>(close_ms * 1'000 * all_.ticks_per_us);
}

/// Forked work has had its slice.
bool monitor::is_over(ticks turn_began) const noexcept {
  return turn_began != 0 && static_cast<std::int64_t>(now_ticks() - turn_began) >
                                static_cast<std::int64_t>(all_.settings.slice.count()) *
                                    static_cast<std::int64_t>(all_.ticks_per_us);
}

/// `anybody_awake`: else no worker need be looked at. Returns whether the next look should come
/// soon: never while there is nobody to wake, as who parks looks for himself.
bool monitor::look(bool anybody_awake) noexcept {
  bool wanted = all_.long_work.open() || all_.timers.due();
  bool forks = false;
  bool soon = std::exchange(closely_, false) || all_.long_work.nonempty();
  for (unsigned i = 0; anybody_awake && i < all_.slots(); ++i) {
    worker& each = all_.slot(i);
    soon = soon || each.time().is_often_long() || is_late(each.time().turn_began());
    if (all_.is_parked(i)) continue;  // it is in no task
    if (each.forks().in_use()) {
      soon = forks = true;
      if (is_over(each.time().turn_began())) each.forks().ask_to_yield();
    }
    const std::uint64_t begun = each.tasks_begun();
    const bool same_task = begun == std::exchange(begun_[i], begun);
    if (same_task && all_.steals && has_something_to_steal(each)) wanted = true;
  }
  if (wanted) all_.wake_one(0);
  return forks || ((wanted || soon) && all_.idle.parked() != 0);
}

}  // namespace bwos
