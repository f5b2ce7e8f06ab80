// SPDX-License-Identifier: Apache-2.0
// Work of a simulated pool: what a task does is written down before it is posted, and a ledger
// knows where each task is.
#pragma once

#include <bwos/continuation.hpp>
#include <bwos/lane.hpp>
#include <bwos/timer_entry.hpp>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "clock.hpp"
#include "io/timer/timer_service.hpp"
#include "machine.hpp"

namespace bwos {
class scheduler;
}

namespace bwos::simulation {

class task;
class ledger;

/// One thing that a task does.
struct action {
  enum class kind : std::uint8_t {
    compute,    ///< for `span`
    post,       ///< `child`
    post_long,  ///< `child`, into the lane
    yield,      ///< and goes on behind what the reactor has
    sleep,      ///< for `span`, and goes on when a timer says so
  };
  kind what = kind::compute;
  nanoseconds span = 0;
  task* child = nullptr;
};

class task : public continuation, public timer_entry {
 public:
  enum class place : std::uint8_t {
    planned,
    ready,
    queued,
    lane,
    asleep,
    running,
    done,
    discarded
  };

  task(ledger& owner, std::size_t at) noexcept
      : continuation(&on_invoke), timer_entry(&on_due), index(at), book_(owner) {
    entry.work = this;
  }

  const std::size_t index;
  std::vector<action> plan;
  place where = place::planned;
  lane_entry entry;
  nanoseconds due = 0;              ///< asleep: until when,
  timer_service* timers = nullptr;  ///< and who knows.
  const task* laned_by = nullptr;   ///< lane: whose post it was; null: from outside.

 private:
  friend ledger;
  static void on_invoke(continuation& self, disposition how) noexcept;
  static void on_due(timer_entry& self) noexcept;
  void go_on() noexcept;
  void sleep(nanoseconds span) noexcept;

  ledger& book_;
  std::size_t done_ = 0;  // of the plan
  bool counted_ = false;  // among those that are surely unfinished
};

/// All tasks of a run, and what they are at.
class ledger {
 public:
  struct running_task {
    const task* what = nullptr;  ///< Null: this worker is inside none.
    nanoseconds began = 0;
    unsigned posted = 0;
    unsigned laned = 0;  ///< Of these, into the lane.
  };

  ledger(machine& on, scheduler& pool, unsigned workers) : here(on), all(pool), workers_(workers) {}
  ledger(const ledger&) = delete;
  ledger& operator=(const ledger&) = delete;

  task& plan();
  /// From outside of the workers.
  void post(task& work) noexcept;
  void post_long(task& work) noexcept;
  /// A reactor has given `count` of what was ready to the running thread.
  void taken_from_reactor(const continuation_chain& events) noexcept;

  [[nodiscard]] const std::deque<task>& tasks() const noexcept { return tasks_; }
  [[nodiscard]] const running_task& running(unsigned worker) const noexcept {
    return workers_[worker];
  }
  /// Handed to the pool and not begun: in a worker's queue, in the inject queue, or yielded.
  [[nodiscard]] std::size_t queued() const noexcept { return queued_; }
  [[nodiscard]] std::size_t unfinished() const noexcept { return unfinished_; }
  /// When the pool last had nothing to do; the present, if it has nothing.
  [[nodiscard]] nanoseconds idle_last() const noexcept {
    return surely_unfinished_ == 0 ? here.now() : idle_last_;
  }
  /// Fails unless every task has run once, or, `stopped_early`, was discarded.
  void check_all(bool stopped_early) const;

  machine& here;
  scheduler& all;

 private:
  friend task;
  void move(task& work, task::place to) noexcept;
  void count(task& work) noexcept;
  running_task& mine() noexcept;

  std::deque<task> tasks_;  // never moves what it has
  std::vector<running_task> workers_;
  std::size_t queued_ = 0;
  std::size_t unfinished_ = 0;
  std::size_t surely_unfinished_ = 0;
  nanoseconds idle_last_ = 0;
};

}  // namespace bwos::simulation
