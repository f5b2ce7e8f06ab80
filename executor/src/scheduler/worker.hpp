// SPDX-License-Identifier: Apache-2.0
// One worker: its queue, and the loop.
#pragma once

#include <bwos/continuation.hpp>
#include <bwos/options.hpp>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include <bwos/base/atomic.hpp>
#include "base/continuation_chain.hpp"
#include "io/reactor.hpp"
#include "io/worker_context.hpp"
#include "scheduler/counters.hpp"
#include "scheduler/fork_worker.hpp"
#include "scheduler/search.hpp"
#include "scheduler/sleeper.hpp"
#include "scheduler/slice.hpp"
#include "scheduler/worker_queue.hpp"

namespace bwos {

class worker final : public worker_context {
 public:
  /// Of `all`, its `index`-th. `pool`: what the continuations that it runs see as theirs.
  /// `reactor_home`: its group's reactor, or its own; null: it sleeps on a futex.
  /// `elsewhere`: the deadlines that a reactor's thread fires for it; null: its reactor's, or the
  /// scheduler's.
  worker(scheduler& all, unsigned index, pool_core* pool, reactor* reactor_home,
         timer_service* elsewhere);

  /// The loop, on the thread that becomes this worker; returns when the scheduler stops.
  void run();

  // On this worker's thread, from inside a continuation.
  void post(continuation& work, wake_rule rule) noexcept;
  void post_long(lane_entry& entry) noexcept;
  void yield(continuation& work) noexcept;

  // Any thread.
  [[nodiscard]] worker_queue::thief thief() noexcept { return queue_.as_thief(); }
  [[nodiscard]] fork_worker& forks() noexcept { return forks_; }
  void wake() noexcept { sleeper_.wake(); }
  [[nodiscard]] const slice& time() const noexcept { return slice_; }
  [[nodiscard]] worker_statistics statistics() const noexcept { return counters_.snapshot(); }
  /// Entries that others could take from its queue a moment ago.
  [[nodiscard]] std::size_t stealable() const noexcept { return queue_.stealable(); }
  /// Tasks begun. For the monitor.
  [[nodiscard]] std::uint64_t tasks_begun() const noexcept { return counters_.run.get(); }
  [[nodiscard]] std::uint64_t departures() const noexcept {
    // [worker.departures.read] seq_cst: one order with parking, for join()'s double look. Partner:
    // [worker.depart].
    return departures_.load(std::memory_order_seq_cst);
  }

  /// After the threads have been joined: everything that never ran.
  void drain(continuation_chain& sink) noexcept;

 private:
  // The steps of the loop, in its order.
  bool run_own_queue() noexcept;  // true: the slice is spent
  bool fetch_injected(bool has_work) noexcept;
  bool find_work() noexcept;
  bool steal() noexcept;
  bool run_stolen_fork() noexcept;
  bool poll() noexcept;
  bool serve_lane(bool aged_only) noexcept;
  bool yield_and_poll() noexcept;
  void park() noexcept;

  void before_task() noexcept;
  void run_task(continuation& next) noexcept;
  void run_forks() noexcept;
  [[nodiscard]] bool others_have_work() noexcept;
  void wake_somebody(wake_reason why) noexcept;
  [[nodiscard]] wake_situation situation() const noexcept;
  bool must_stay_awake(search::sighting& seen) noexcept;
  void put(continuation& work) noexcept;
  void put_all(continuation_chain&& ready) noexcept;
  bool put_stolen(std::span<continuation* const> stolen) noexcept;
  void put_reaped(continuation_chain&& ready) noexcept;
  void spill(continuation& work) noexcept;

  scheduler& all_;
  const unsigned word_;
  const unsigned bit_;
  const bool in_group_;  // the reactor is a group's
  worker_counters counters_;
  slice slice_;
  search search_;
  sleeper sleeper_;
  std::size_t backlog_ = 0;      // tasks queued; too many after a steal, right again when empty
  bool has_successor_ = false;   // something waits behind the running task, open to thieves
  unsigned posted_ = 0;          // by the running task
  unsigned inject_misses_ = 0;   // in a row: somebody else had the inject queue's lock
  unsigned mean_events_x8_ = 0;  // moving average of events of a poll that had any, times 8
  continuation_chain yielded_;
  std::unique_ptr<std::byte[]> scratch_memory_;
  atomic<std::uint64_t> departures_{0};
  bool holds_forks_ = false;  // until events have had their turn
  fork_worker forks_;
  worker_queue queue_;
  worker_queue::owner& own_;
};

}  // namespace bwos
