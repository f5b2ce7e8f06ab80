// SPDX-License-Identifier: Apache-2.0
// What the workers of a pool share, and how work gets to them. It has no threads: a pool lends them
// (pool/pool_core.hpp), and so does the seeded schedule test.
#pragma once

#include <algorithm>
#include <bwos/options.hpp>
#include <cstdint>
#include <memory>
#include <vector>

#include <bwos/base/atomic.hpp>
#include <bwos/base/cache_line.hpp>
#include "base/check.hpp"
#include "base/fork_generation.hpp"
#include "base/ticks.hpp"
#include "io/timer/timer_service.hpp"
#include "queue/inject_queue.hpp"
#include "scheduler/idle_set.hpp"
#include "scheduler/lane.hpp"
#include "scheduler/monitor.hpp"
#include "scheduler/progress.hpp"
#include "steal/topology.hpp"

namespace bwos {

class reactor;
class worker;

class scheduler {
 public:
  /// `settings` have been validated, and outlive this. `groups`: the shared reactor of each group
  /// of workers; empty: each worker sleeps by itself.
  scheduler(const options& settings, std::vector<reactor*> groups);
  ~scheduler();
  scheduler(const scheduler&) = delete;
  scheduler& operator=(const scheduler&) = delete;

  // Any thread.

  /// Into the own queue on a worker of this scheduler, else into the inject queue.
  void post(continuation& work) noexcept { post(work, settings.posts_wake); }
  void post(continuation& work, wake_rule rule) noexcept;
  /// What a reactor thread has found ready: not empty, in its order.
  void inject_all(const continuation_chain& ready) noexcept;
  void yield(continuation& work) noexcept;
  void post_long(lane_entry& entry) noexcept;

  /// Work that join() waits for though nothing of it is queued.
  void work_started() noexcept;
  void work_finished() noexcept;

  /// Wakes one sleeper, if any and nobody searches; `first`: the word to look at first. After
  /// publishing work.
  bool wake_one(unsigned first) noexcept;
  /// The same for what worker `from` has forked: a sleeper, or else a wait (fork_worker.hpp, W4).
  void wake_for_forks(unsigned from) noexcept;
  void wake_all() noexcept;

  /// All workers leave after the task at hand. In a child of fork() it wakes nobody.
  void stop() noexcept;
  [[nodiscard]] bool stopping() const noexcept {
    // [scheduler.stopping] seq_cst: part of the look before parking; a plain load where it is
    // cheap. Partner: [scheduler.stop].
    return stopping_.load(std::memory_order_seq_cst);
  }

  /// Whether this process is a child of fork() of the one that made this.
  [[nodiscard]] bool in_child() const noexcept { return fork_generation != born_generation_; }
  /// Ends a child of fork() whose only thread has come back into a worker's loop.
  void stay_in_parent() const noexcept {
    detail::refuse(in_child(),
                   "a task has returned in a child of fork(), which must end in exec or _exit");
  }
  /// In the child, before it has a second thread: the worker that forked shall run nothing more.
  void give_up() noexcept;

  [[nodiscard]] unsigned slots() const noexcept {
    // [scheduler.slots.read] acquire: the workers up to it are complete. Partner:
    // [scheduler.slots.publish].
    return slot_count_.load(std::memory_order_acquire);
  }
  [[nodiscard]] worker& slot(unsigned index) noexcept { return *slots_[index]; }
  [[nodiscard]] const worker& slot(unsigned index) const noexcept { return *slots_[index]; }
  [[nodiscard]] bool all_parked() const noexcept { return idle.parked() == slots(); }
  /// Whether a look for others' work may pass over that worker (idle_set.hpp, I5).
  [[nodiscard]] bool is_parked(unsigned index) const noexcept {
    const assignment& at = assignment_of(index);
    return idle.is_parked(at.word, at.bit, has_groups() ? group_size(at.word) : 0);
  }
  /// Nothing is queued and nothing runs that could queue more.
  [[nodiscard]] bool quiescent() const noexcept;
  /// The calling thread's worker, if it is one of this.
  [[nodiscard]] worker* here() const noexcept;
  /// Whether the calling thread is inside one of this scheduler's workers, however deep.
  [[nodiscard]] bool is_inside() const noexcept;

  /// The word of the idle set that a worker belongs to, and the reactor of its group.
  struct assignment {
    unsigned word = 0;
    unsigned bit = 0;
    reactor* home = nullptr;  ///< Null without groups.
  };
  [[nodiscard]] bool has_groups() const noexcept { return !groups_.empty(); }
  [[nodiscard]] const assignment& assignment_of(unsigned index) const noexcept {
    return assignments_[index];
  }
  /// Whether `holds(worker)` for one of the workers that share a reactor.
  template <class Predicate>
  [[nodiscard]] bool any_in_group(unsigned word, const Predicate& holds) const noexcept {
    const unsigned groups = idle.words();
    const auto any_in = [&](unsigned first, unsigned last, unsigned step) {
      for (unsigned i = first; i < last; i += step) {
        if (holds(slot(i))) return true;
      }
      return false;
    };
    return any_in(first_in(word), std::min(first_in(word + 1), slots()), 1) ||
           any_in(settings.workers + word, slots(), groups);
  }

  // For the pool, one thread at a time.

  /// The worker of that index. Those below it may come later, on other threads: publish() says that
  /// they are complete.
  void install(unsigned index, std::unique_ptr<worker> next) noexcept;
  /// Workers below `count` are there for everybody.
  void publish(unsigned count) noexcept;
  /// After the threads have been joined: everything that never ran.
  void drain(continuation_chain& sink) noexcept;
  /// The same, but for timers.
  void drain_queues(continuation_chain& sink) noexcept;

  const options& settings;
  const bool steals;
  const std::unique_ptr<worker_places> places;  ///< Null, unless stealing goes by them.
  const ticks ticks_per_us;
  inject_queue inject;
  lane long_work;
  idle_set idle;
  idle_set waits;  ///< Of waits that sleep inside tasks, by the workers' indices.
  monitor watch;
  timer_service timers;  ///< Of workers without a reactor: whoever is free fires them.
  progress moved;

 private:
  [[nodiscard]] std::uint64_t departures() const noexcept;
  /// The first worker of a group, attached threads apart.
  [[nodiscard]] unsigned first_in(unsigned group) const noexcept {
    const unsigned groups = idle.words();
    return (group * settings.workers + groups - 1) / groups;
  }
  [[nodiscard]] unsigned group_size(unsigned group) const noexcept {
    const unsigned attached = slots() - std::min(slots(), settings.workers);
    const unsigned groups = idle.words();
    return group_sizes_[group] + (attached == 0 ? 0 : (attached + groups - 1 - group) / groups);
  }
  [[nodiscard]] assignment assign(unsigned index) const noexcept;

  const unsigned born_generation_ = fork_generation;
  const std::vector<reactor*> groups_;
  std::vector<assignment> assignments_;         // of all that there can be
  std::vector<unsigned> group_sizes_;           // attached threads apart
  std::vector<std::unique_ptr<worker>> slots_;  // as many as there can be: never moves
  atomic<unsigned> slot_count_{0};
  atomic<bool> stopping_{false};
  // Apart: each coroutine that is spawned or ends writes it, all that stands above is read always.
  alignas(cache_line) atomic<std::int64_t> outstanding_{0};
};

}  // namespace bwos
