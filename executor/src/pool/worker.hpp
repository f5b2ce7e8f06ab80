// SPDX-License-Identifier: Apache-2.0
// One thread of a pool: its queue, and the loop.
#pragma once

#include <array>
#include <atomic>
#include <bwos/continuation.hpp>
#include <bwos/options.hpp>
#include <cstddef>
#include <memory>
#include <vector>

#include "base/continuation_chain.hpp"
#include "base/random.hpp"
#include "base/ticks.hpp"
#include "park/futex_parker.hpp"
#include "pool/queue_shape.hpp"
#include "reactor/reactor.hpp"
#include "reactor/worker_context.hpp"
#include "statistics/counters.hpp"

namespace bwos {

class worker final : public worker_context {
 public:
  using queue = worker_queue;
  static constexpr std::size_t steal_max = options::steal_batch_max;

  /// `shared`: the reactor is a group's. `word`, `bit`: its place in the idle set. A null reactor:
  /// parks on a futex.
  worker(pool_core& pool, unsigned index, reactor* home_reactor, bool shared, unsigned word,
         unsigned bit);

  /// The loop, on the thread that becomes this worker; returns when the pool stops.
  void run();

  // On this worker's thread, from inside a continuation.
  void post(continuation& work) noexcept;
  void post_long(lane_entry& entry) noexcept;
  void yield(continuation& work) noexcept;

  // Any thread.
  [[nodiscard]] queue::thief thief() noexcept { return queue_.as_thief(); }
  void wake() noexcept;
  [[nodiscard]] worker_statistics statistics() const noexcept { return counters_.snapshot(); }
  [[nodiscard]] std::uint64_t departures() const noexcept {
    // [worker.departures.read] seq_cst: one order with parking, for join()'s double look. Partner:
    // [worker.depart].
    return departures_.load(std::memory_order_seq_cst);
  }

  /// Tasks begun. For the monitor.
  [[nodiscard]] std::uint64_t tasks_begun() const noexcept { return counters_.run.read(); }

  /// When its present turn of the loop began: a slice of tasks at most, unless one does not end. 0:
  /// it is parked, or has not started.
  [[nodiscard]] ticks turn_began() const noexcept {
    // [worker.turn.read] seq_cst: of two workers that go to sleep at once, one sees that the other
    // does (watched_by_others). Partner: [worker.turn.end], [worker.turn.note].
    return turn_began_.load(std::memory_order_seq_cst);
  }

  /// How many of its tasks were long, a moving average, in 65,536ths.
  [[nodiscard]] unsigned long_share() const noexcept {
    // [worker.long.read] relaxed: a hint, on whose strength nothing else is read. Partner:
    // [worker.long.note].
    return long_share_.load(std::memory_order_relaxed);
  }

  /// After the threads have been joined: everything that never ran.
  void drain(continuation_chain& sink) noexcept;

 private:
  struct place {
    worker* victim = nullptr;  // null: nowhere
    std::size_t block = 0;
    bool more = false;  // another block has something as well
  };
  enum class found : std::uint8_t { nothing, one, more };

  // The steps of the loop, in its order.
  bool run_local() noexcept;  // true: the slice is spent
  bool take_inject(bool has_work) noexcept;
  bool find_work() noexcept;
  bool poll() noexcept;
  bool steal() noexcept;
  bool serve_lane(bool aged_only) noexcept;
  bool yield_and_poll() noexcept;
  void park() noexcept;

  void put(continuation& work) noexcept;
  void spill(continuation& work) noexcept;
  void deliver(continuation_chain&& ready) noexcept;
  void begin_slice() noexcept;
  void note_turn(ticks began) noexcept {
    // [worker.turn.note] relaxed: publishes nothing but itself, written here alone. Partner:
    // [worker.turn.read].
    turn_began_.store(began, std::memory_order_relaxed);
  }
  void end_turn() noexcept {
    // [worker.turn.end] seq_cst: before its looks at others' turns. Partner: [worker.turn.read].
    turn_began_.store(0, std::memory_order_seq_cst);
  }
  void note_length(ticks& since) noexcept;
  void expose_backlog() noexcept;
  bool take_stolen(worker& victim, std::size_t block, std::size_t count) noexcept;
  void stop_searching() noexcept;
  bool look_everywhere(place& where) noexcept;
  place something_to_steal() noexcept;
  [[nodiscard]] bool watched_by_others() const noexcept;
  bool sleep(continuation_chain& sink) noexcept;

  pool_core& pool_;
  const unsigned word_;
  const unsigned bit_;
  const bool shared_;
  const bool steals_;
  bool searching_ = false;
  found found_ = found::nothing;  // what the last steal, or look at inject, gave
  bool left_behind_ = false;      // the running task has tasks behind it
  bool slice_over_ = false;       // the running task asked for the reactor's turn
  unsigned posted_ = 0;           // by the running task
  unsigned inject_misses_ = 0;    // in a row: somebody else had the inject queue's lock
  unsigned slice_tasks_ = 0;      // run since the last look at the reactor
  std::size_t backlog_ =
      0;  // tasks in the own queue; too many after a steal, right again when empty
  ticks slice_end_ = 0;
  ticks mean_task_ = 0;          // moving average, of whole runs through the queue
  bool napped_in_vain_ = false;  // the last nap ended with nothing to do
  unsigned mean_events_x8_ = 0;  // moving average of events of a poll that had any, times 8
  random_source random_;
  worker_counters counters_;
  continuation_chain yielded_;
  std::array<continuation*, steal_max> stolen_;
  std::unique_ptr<std::byte[]> scratch_memory_;
  futex_parker parker_;
  timer_service own_timers_;  // where no reactor has one
  std::atomic<std::uint64_t> departures_{0};
  std::atomic<ticks> turn_began_{0};
  std::atomic<unsigned> long_share_{0};
  queue queue_;
  queue::owner& own_;
};

}  // namespace bwos
