// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <utility>

#include <bwos/base/atomic.hpp>
#include <bwos/base/memory_order.hpp>
#include <bwos/fork/here.hpp>
#include <bwos/queue/fork_queue.hpp>

// What fork-join (<bwos/fork_join.hpp>, <bwos/task_group.hpp>) reaches of the worker that it runs
// on; not for use of its own.
//
// ROLES  A task on the worker forks, joins and waits; other workers steal what it forked
// (scheduler/fork_worker.hpp). Off a pool there is no object of this, and nothing is forked.
//
// INVARIANTS
// F1  What a worker has forked it has taken back, or others have stolen, before it begins another
//     task; or it holds it while it lets events in (fork_worker.hpp, W3).
// F2  Entries are stolen oldest first. So where the entry of a fork has been stolen, nothing older
//     is left in that queue. Where a wait of its own worker has run it, that has ended when the
//     fork's parent comes to it.
// F3  A coroutine goes on by a jump from another one. Where the compiler makes calls of jumps (g++
//     without -O2), the stack grows by each; so where it has grown by stack_max, the next one goes
//     through the worker's loop. Tests: fork_join_test (needs_no_stack_*)

namespace bwos {

class futex_parker;
class pool_core;
class pool_waits;
struct continuation;

namespace detail {

/// What lies in a fork queue. It runs once, on the worker that takes it.
struct forked {
  using function = void (*)(forked&) noexcept;

  explicit constexpr forked(function how) noexcept : run(how) {}
  forked(const forked&) = delete;
  forked& operator=(const forked&) = delete;

  function run;
};

/// One waiter's word about an end.
class join_word {
 public:
  [[nodiscard]] bool over() const noexcept {
    // [join.over] acquire: the waiter goes on with what the work wrote. Partner: [join.end].
    return word_.load(acquire) == over_value;
  }
  /// The work has ended. Any thread, once; the word may be gone when it returns.
  void end() noexcept {
    // [join.end] acq_rel: hands the work's results to the waiter, and takes over the sleep that it
    // has announced. Partner: [join.over], [join.announce].
    const std::uintptr_t seen = word_.exchange(over_value, acq_rel);
    if (seen != 0) [[unlikely]] {
      wake(seen);
    }
  }

  // The waiter. `parker` is never freed: the thread that ends the work may come to it late.

  /// False: it is over.
  bool announce(void* parker) noexcept {
    std::uintptr_t expected = 0;
    // [join.announce] acq_rel: who ends the work hereafter sees the parker; who has ended it has
    // passed on its results. Partner: [join.end].
    return word_.compare_exchange_strong(expected, reinterpret_cast<std::uintptr_t>(parker),
                                         acq_rel, acquire);
  }
  /// The waiter sleeps no more.
  void retract(void* parker) noexcept {
    std::uintptr_t expected = reinterpret_cast<std::uintptr_t>(parker);
    // [join.retract] acquire: results, where the end came first. Partner: [join.end].
    word_.compare_exchange_strong(expected, 0, acquire);
  }

 private:
  static constexpr std::uintptr_t over_value = 1;
  static void wake(std::uintptr_t parker) noexcept;

  atomic<std::uintptr_t> word_{0};
};

/// What belongs to a wait. Of what is posted: where the pool stops and will not run it any more, it
/// is discarded. Of what is forked: it runs on top of the wait, however deep waits are nested.
struct waited_work {
  bool (*is_posted)(const continuation& work, const void* whole) noexcept = nullptr;
  bool (*is_forked)(const forked& work, const void* whole) noexcept = nullptr;
  const void* whole = nullptr;
};

/// A wait of a thread that is no worker, or of a worker of a pool that stops. The pool's end waits
/// for its end.
class outside_wait {
 public:
  /// Before the work is queued.
  explicit outside_wait(pool_core& of) noexcept;
  ~outside_wait();
  outside_wait(const outside_wait&) = delete;
  outside_wait& operator=(const outside_wait&) = delete;

  /// Sleeps until `end` is over.
  void until(join_word& end, waited_work work) noexcept;

 private:
  friend pool_waits;

  pool_core& of_;
  futex_parker* parker_;  // null: there was no memory for it
  outside_wait* next_ = nullptr;
};

class forks {
 public:
  using queue_type = fork_queue<forked*>;
  enum class put_result : std::uint8_t {
    stored,
    yield,    ///< Stored, and other tasks of the worker have waited for a slice.
    refused,  ///< Not stored: no memory, or waits are nested too deep. The caller runs it.
  };

  forks(const forks&) = delete;
  forks& operator=(const forks&) = delete;

  /// The calling thread's; null off a pool. Valid until the running coroutine is suspended.
  static forks* here() noexcept;
  /// The same, where the thread's worker is one of `of`; else null.
  static forks* here(const pool_core& of) noexcept;

  /// Forks `entry`: from now on it may run anywhere, at once.
  put_result put(forked& entry) noexcept {
    if (own().put_quickly(&entry)) [[likely]] {
      return put_result::stored;
    }
    return finish_put(entry);
  }

  /// Takes `entry` back if it is the youngest. False: it is not here, so that somebody runs it.
  bool take(forked& entry) noexcept {
    forked* youngest;
    const bool quickly = own().get_quickly(youngest);
    if (quickly && youngest == &entry) [[likely]] {
      return true;
    }
    return finish_take(entry, quickly ? youngest : nullptr);
  }

  /// Runs what lies above `entry`, whose end is `end`, and takes that back. False: somebody else
  /// has it; or it is over, as a wait has run it (fork_worker.hpp, W5).
  bool take_below_others(forked& entry, const join_word& end) noexcept {
    forked* youngest;
    const bool quickly = own().get_quickly(youngest);
    if (quickly && youngest == &entry) [[likely]] {
      return true;
    }
    return finish_take_below(entry, end, quickly ? youngest : nullptr);
  }

  /// What a coroutine's await_suspend returns, so that `next` goes on (F3).
  std::coroutine_handle<> transfer(std::coroutine_handle<> next) noexcept {
    if (stack_now() > stack_end_) [[likely]] {
      return next;
    }
    return postpone(next);
  }
  /// The same, also off a pool.
  static std::coroutine_handle<> transfer(forks* here, std::coroutine_handle<> next) noexcept {
    return here == nullptr ? next : here->transfer(next);
  }
  /// The same through the worker's loop, where that is possible.
  std::coroutine_handle<> postpone(std::coroutine_handle<> next) noexcept {
    if (next_ != nullptr) return next;
    next_ = next;
    return std::noop_coroutine();
  }

  /// Until `end` is over: runs what is forked here, then what it can steal of others' forks; else
  /// it sleeps.
  void wait(join_word& end, waited_work work = {}) noexcept;

  /// Runs one piece of forked work, of this worker or another. False: there was none.
  bool try_run_one() noexcept;

  /// An exception that nobody will see: its waiter has another one.
  void count_dropped_exceptions(std::size_t count) noexcept;

 protected:
  static constexpr std::uintptr_t stack_max = 64 * 1024;

  /// Where the stack has grown to, nearly.
  static std::uintptr_t stack_now() noexcept {
#if defined(__clang__)
    return reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0));
#else
    char here;  // costs no frame pointer
    return reinterpret_cast<std::uintptr_t>(&here);
#endif
  }
  /// What runs from here on may use stack_max. Returns what was so before, to be restored.
  std::uintptr_t begin_stack() noexcept {
    return std::exchange(stack_end_, stack_now() - stack_max);
  }
  void end_stack(std::uintptr_t outer) noexcept { stack_end_ = outer; }

  forks() noexcept = default;
  ~forks() = default;

  /// Runs `entry` and what it postpones.
  void run(forked& entry) noexcept {
    entry.run(entry);
    if (next_ != nullptr) [[unlikely]] {
      run_postponed();
    }
  }
  void run_postponed() noexcept;
  put_result finish_put(forked& entry) noexcept;
  queue_type::owner& own() noexcept { return queue_.as_owner(); }
  // `other`: what the queue gave instead of `entry`; null: the get is to be finished.
  bool finish_take(forked& entry, forked* other) noexcept;
  bool finish_take_below(forked& entry, const join_word& end, forked* other) noexcept;

  queue_type queue_;
  std::coroutine_handle<> next_;
  std::uintptr_t stack_end_ = 0;
};

inline forks* forks::here() noexcept {
  return current_forks();
}

}  // namespace detail

}  // namespace bwos
