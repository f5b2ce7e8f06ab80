// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <new>
#include <optional>
#include <stop_token>
#include <thread>
#include <type_traits>
#include <utility>

#include <bwos/base/atomic.hpp>
#include <bwos/base/memory_order.hpp>
#include <bwos/fork/forks.hpp>
#include <bwos/fork/memory.hpp>
#include <bwos/pool.hpp>

// Fork-join for functions that are no coroutines: child stealing. Who waits, works meanwhile, but
// keeps its stack and its worker. For coroutines there is <bwos/fork_join.hpp>.

namespace bwos {
namespace detail {

/// The second half of an invoke(), on the stack of its caller.
template <class Function>
class forked_call final : public forked {
 public:
  explicit forked_call(Function& function) noexcept : forked(&run_stolen), function_(function) {}

  join_word end;

  /// Once, where it was stolen and has ended.
  std::exception_ptr take_failure() noexcept {
    auto& failure = *std::launder(reinterpret_cast<std::exception_ptr*>(failure_));
    std::exception_ptr taken = std::exchange(failure, nullptr);
    failure.~exception_ptr();
    return taken;
  }

 private:
  static void run_stolen(forked& self) noexcept {
    auto& call = static_cast<forked_call&>(self);
    auto& failure = *::new (call.failure_) std::exception_ptr;
    try {
      call.function_();
    } catch (...) {
      failure = std::current_exception();
    }
    call.end.end();
  }

  Function& function_;
  // Made by who steals it, as it costs a tenth of a fork.
  alignas(std::exception_ptr) unsigned char failure_[sizeof(std::exception_ptr)];
};

/// Calls `function` and drops its exception, as another one is on its way.
template <class Function>
void call_and_drop(Function& function, forks* here) noexcept {
  try {
    function();
  } catch (...) {
    if (here != nullptr) here->count_dropped_exceptions(1);
  }
}

}  // namespace detail

/// Calls `first` and `second`, at the same time where another worker is free, and returns when both
/// have ended. `first` runs here and now; `second` is open to thieves meanwhile, and runs here
/// where none came. While it waits, the worker runs other forked work, never events or posted work
/// (options::wait_depth). Off a pool, and where waits are nested too deep, one is called after the
/// other. Allocates nothing.
///
/// Exceptions: both are called and have ended, whatever the other does; that of `first` is thrown,
/// or that of `second`. Both: that of `second` is dropped (worker_statistics::exceptions_dropped).
template <std::invocable First, std::invocable Second>
void invoke(First&& first, Second&& second) {
  detail::forks* const here = detail::forks::here();
  detail::forked_call forked(second);
  const bool open = here != nullptr && here->put(forked) != detail::forks::put_result::refused;
  try {
    first();
  } catch (...) {
    if (!open || here->take_below_others(forked, forked.end)) {
      detail::call_and_drop(second, here);
    } else {
      here->wait(forked.end);
      if (forked.take_failure()) here->count_dropped_exceptions(1);
    }
    throw;
  }
  if (!open || here->take_below_others(forked, forked.end)) [[likely]] {
    second();
    return;
  }
  here->wait(forked.end);
  if (std::exception_ptr failure = forked.take_failure()) {
    std::rethrow_exception(std::move(failure));
  }
}

/// The same for three and more.
template <std::invocable First, std::invocable Second, std::invocable... Rest>
  requires(sizeof...(Rest) != 0)
void invoke(First&& first, Second&& second, Rest&&... rest) {
  invoke(first, [&] { invoke(second, rest...); });
}

/// Runs one piece of forked work, of the calling thread's worker or of another; false: there was
/// none, or the thread is no worker.
inline bool try_run_one() noexcept {
  detail::forks* const here = detail::forks::here();
  return here != nullptr && here->try_run_one();
}

/// Until `is_over()`, which is asked again and again: on a worker runs forked work meanwhile; where
/// there is none, and on other threads, gives way to others. For what tells nobody of its end:
/// task_group::wait() and sync_wait() sleep instead. What shall run after all that is queued,
/// pool::post() takes; what shall run first, and be stolen last, task_group::run().
template <std::predicate Predicate>
void run_until(Predicate&& is_over) {
  while (!is_over()) {
    if (!try_run_one()) std::this_thread::yield();
  }
}

/// Functions that run at the same time where workers are free, and a wait for all of them.
///
///     bwos::task_group group(pool);
///     for (const path& each : files) group.run([&each] { index(each); });
///     group.wait();
///
/// run() may be called by any thread, as long as wait() cannot have ended: before it is called, or
/// by what the group runs. wait() and the end of the group belong to one thread. On a worker of the
/// pool run() forks, else it posts. Once wait() has returned, or thrown, the group may be used
/// again. The pool outlives the group.
class task_group {
 public:
  /// `token` is handed to each function that takes a std::stop_token. What has not begun when it is
  /// stopped begins all the same.
  explicit task_group(pool& where, std::stop_token token = {}) noexcept
      : pool_(where), token_(std::move(token)) {}
  /// Waits. Exceptions that no wait() has thrown are dropped, and counted on a worker
  /// (worker_statistics::exceptions_dropped).
  ~task_group();
  task_group(const task_group&) = delete;
  task_group& operator=(const task_group&) = delete;

  /// Runs `function` once, with the group's token if it takes one. Throws std::bad_alloc, and then
  /// nothing of it runs. On a worker whose waits are nested too deep (options::wait_depth) it runs
  /// before run() returns.
  template <class Function>
    requires std::invocable<std::decay_t<Function>&> ||
             std::invocable<std::decay_t<Function>&, std::stop_token>
  void run(Function&& function);

  /// Until all that has been run has ended; then throws the first exception in time, if there was
  /// any. On a worker of the pool it runs the group's functions meanwhile, and then other forked
  /// work, never events or posted work; elsewhere it sleeps. What the pool's end leaves unrun has
  /// failed with std::system_error(std::errc::operation_canceled).
  void wait();

  /// How many functions have thrown before the last wait() ended.
  [[nodiscard]] std::size_t exceptions() const noexcept { return thrown_; }

 private:
  class child_base;
  template <class Function>
  class child;

  [[nodiscard]] detail::waited_work children() const noexcept;
  void start(child_base& work) noexcept;
  void child_ended(std::exception_ptr failure) noexcept;
  void child_discarded() noexcept;
  std::exception_ptr join() noexcept;

  pool& pool_;
  std::stop_token token_;
  // One more than there are children while nobody waits: so it comes to 0 once.
  atomic<std::size_t> running_{1};
  atomic<std::size_t> failures_{0};
  std::exception_ptr first_failure_;
  std::size_t thrown_ = 0;
  std::optional<detail::join_word> end_{std::in_place};
};

/// A function of a group: forked, or posted.
class task_group::child_base : public detail::forked, public continuation {
 public:
  explicit child_base(task_group& of) noexcept
      : forked(&run_forked), continuation(&posted), group(of) {}

  static void* operator new(std::size_t size) { return detail::fork_memory::allocate(size); }
  static void operator delete(void* memory, std::size_t size) noexcept {
    detail::fork_memory::deallocate(memory, size);
  }

  task_group& group;

 private:
  friend task_group;
  static void run_forked(detail::forked& self) noexcept;
  static void posted(continuation& self, disposition how) noexcept;
  virtual void run_here() noexcept = 0;
  virtual void discard() noexcept = 0;
};

template <class Function>
class task_group::child final : public child_base {
 public:
  template <class From>
  child(task_group& of, From&& from) : child_base(of), function_(std::forward<From>(from)) {}

 private:
  void discard() noexcept override {
    task_group& of = group;
    delete this;
    of.child_discarded();
  }
  void run_here() noexcept override {
    task_group& of = group;
    std::exception_ptr failure;
    try {
      if constexpr (std::invocable<Function&>) {
        function_();
      } else {
        function_(of.token_);
      }
    } catch (...) {
      failure = std::current_exception();
    }
    delete this;  // before the end: who waits may rely on it
    of.child_ended(std::move(failure));
  }

  Function function_;
};

template <class Function>
  requires std::invocable<std::decay_t<Function>&> ||
           std::invocable<std::decay_t<Function>&, std::stop_token>
void task_group::run(Function&& function) {
  start(*new child<std::decay_t<Function>>(*this, std::forward<Function>(function)));
}

}  // namespace bwos
