// SPDX-License-Identifier: Apache-2.0
// A worker's side of fork-join: its fork queue, its steals from others' ones, and its sleep while
// it waits inside of a task. What tasks call is in <bwos/fork/forks.hpp>.
//
// ROLES  The owner is the worker. Thieves are other workers that have nothing to do, or that wait.
//
// INVARIANTS
// W1  in_use_ is true while there may be entries. The first put of a task goes the slow way, where
//     the owner sets it (seq_cst) and then looks who sleeps (seq_cst). A worker that is about to
//     sleep announces itself (seq_cst) and then looks at in_use_ (seq_cst). So one sees the other.
// W2  Who is about to sleep asks all that are in use, exposes what they hold, and looks at it. What
//     is put behind that goes the slow way, as somebody has asked (fork_queue.hpp, K10), where the
//     owner wakes a sleeper if nobody searches. If somebody does, that one will come to an end like
//     this, or wakes another when it leaves with something (idle_set.hpp, I2): its look counts what
//     is hidden, too.
// W3  A worker holds its forks while it lets events in: when its slice is over and the monitor has
//     asked it to yield, the coroutine that forks goes back to the loop. Functions that block
//     (invoke, task_group::wait) cannot.
// W4  A wait sleeps in a set of its own, beside that of the parked: it is woken for forked work, or
//     by the end that it waits for, but not for events and posted work, which it may not run.
// W5  A wait on the stack of another is by what wait_depth bounds: by a steal, or by an entry of
// its
//     own queue that was there before the wait, and is not a child of the group that it waits for.
//     All else runs on the stack as calls would. Where wait_depth is reached, forks are calls: the
//     puts are suspended. So what is queued then is from below, and a wait for something elsewhere
//     leaves it to others.
// W6  In a pool that stops, a wait ends by what has begun, or because nobody is left to run it
//     (pool/pool_waits.hpp).
// Tests: fork_join_test, task_group_test, tests/simulation (pool_forks, pool_long_forks)
#pragma once

#include <cstdint>

#include <bwos/base/atomic.hpp>
#include <bwos/base/cache_line.hpp>
#include <bwos/fork/forks.hpp>
#include "base/lent_parker.hpp"
#include "base/random.hpp"
#include "scheduler/counters.hpp"

namespace bwos {

class scheduler;

class fork_worker final : public detail::forks {
 public:
  using forked = detail::forked;

  fork_worker(scheduler& all, unsigned index, pool_core* pool, worker_counters& counters);
  ~fork_worker();

  // The worker.

  /// On its thread, before it begins.
  void begin() noexcept { begin_stack(); }
  /// There are entries, or a coroutine that has been postponed.
  [[nodiscard]] bool pending() const noexcept { return used_ || next_ != nullptr; }
  /// Runs what is forked and postponed, until there is no more (true) or it shall yield.
  bool run_all() noexcept;
  /// The same, whoever waits: at the pool's end.
  void finish() noexcept;
  /// One entry of another worker; null: none is granted. Asks those in use that had none.
  [[nodiscard]] forked* steal() noexcept;
  /// The same with patience, where somebody's queue is in use: until an owner has had time to
  /// answer.
  [[nodiscard]] forked* steal_patiently() noexcept;
  void run_stolen(forked& entry) noexcept { run(entry); }
  /// Between the announcement of its sleep and the last look (W2). True: look once more.
  bool expose_others() noexcept;
  /// Whether others' queues have something: granted, or also what is hidden.
  [[nodiscard]] bool others_have_granted() const noexcept;
  [[nodiscard]] bool others_have_some() const noexcept;

  // Any thread.

  [[nodiscard]] bool in_use() const noexcept {
    // [forks.in_use.look] seq_cst: behind the announcement of a sleep (W1). Partner:
    // [forks.in_use].
    return in_use_.load(std::memory_order_seq_cst);
  }
  [[nodiscard]] queue_type::thief thief() noexcept { return queue_.as_thief(); }
  /// Its coroutines shall let events in (W3). For the monitor.
  void ask_to_yield() noexcept;
  /// Ends its wait's sleep: after a claim in the set of waits.
  void wake() noexcept { (*parker_).wake(); }
  [[nodiscard]] const pool_core* pool() const noexcept { return pool_; }

 private:
  friend detail::forks;
  struct more_blocks;

  struct waiting {
    /// What its own queue has for it: only what is younger than the wait; also what is older; or
    /// nothing that it may run.
    enum class entries : std::uint8_t { younger, older, none };
    detail::waited_work work;
    entries own = entries::younger;
  };

  [[nodiscard]] bool grow() noexcept;
  [[nodiscard]] bool run_own(waiting& now) noexcept;
  [[nodiscard]] bool run_stolen_deeper() noexcept;
  void run_deeper(forked& entry) noexcept;
  put_result finish_put(forked& entry) noexcept;
  void put_back(forked& entry) noexcept;
  void run_postponed() noexcept;
  void begin_use() noexcept;
  void end_use() noexcept;
  [[nodiscard]] bool must_yield() const noexcept;
  bool try_run_one() noexcept;
  void wait(detail::join_word& end, detail::waited_work work) noexcept;
  void sleep(detail::join_word& end) noexcept;
  void end_search() noexcept;
  [[nodiscard]] bool may_steal() const noexcept;
  [[nodiscard]] bool others_in_use() const noexcept;
  [[nodiscard]] unsigned word() const noexcept;
  [[nodiscard]] unsigned bit() const noexcept;
  template <class Holds>
  bool any_other(const Holds& holds) const noexcept;

  scheduler& all_;
  const unsigned index_;
  pool_core* const pool_;
  worker_counters& counters_;
  random_source random_;
  more_blocks* grown_ = nullptr;
  unsigned depth_ = 0;     // steals on this stack
  unsigned waits_ = 0;     // waits on this stack
  bool used_ = false;      // as in_use_
  bool searches_ = false;  // counted as a searcher in the set of waits
  lent_parker parker_;
  alignas(cache_line) atomic<bool> in_use_{false};
  atomic<bool> yield_asked_{false};
};

}  // namespace bwos
