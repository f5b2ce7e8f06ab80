// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <coroutine>
#include <exception>
#include <optional>
#include <system_error>
#include <type_traits>
#include <utility>
#include <variant>

#include <bwos/fork_join.hpp>
#include <bwos/task_group.hpp>

namespace bwos {
namespace detail {

/// Root of a chain that a thread waits for. The frame is the waiter's.
class waited_promise final : public continuation, public root_link {
  using handle = std::coroutine_handle<waited_promise>;
  struct end_awaiter {
    [[nodiscard]] bool await_ready() const noexcept { return false; }
    void await_suspend(handle ended) const noexcept { ended.promise().finish(); }
    void await_resume() const noexcept {}
  };

 public:
  struct waited {
    using promise_type = waited_promise;
    std::coroutine_handle<waited_promise> frame;
  };

  waited_promise() noexcept : continuation(&start), root_link(&discard) {}

  [[nodiscard]] waited get_return_object() noexcept { return {handle::from_promise(*this)}; }
  [[nodiscard]] std::suspend_always initial_suspend() const noexcept { return {}; }
  [[nodiscard]] end_awaiter final_suspend() const noexcept { return {}; }
  void return_void() const noexcept {}
  void unhandled_exception() noexcept { failure = std::current_exception(); }

  /// Queues it on `where`, whose join() waits for its end.
  void post_to(pool& where) noexcept {
    posted_to_ = &where;
    where.work_started();
    where.post(*this);
  }

  /// What of it a pool may have queued.
  [[nodiscard]] waited_work as_waited() const noexcept {
    return {[](const continuation& work, const void* root) noexcept { return &work == root; },
            nullptr, static_cast<const continuation*>(this)};
  }

  join_word end;
  std::exception_ptr failure;

 private:
  static void start(continuation& self, disposition how) noexcept {
    auto& root = static_cast<waited_promise&>(self);
    if (how == disposition::run) {
      handle::from_promise(root).resume();
    } else {
      discard(root);
    }
  }
  static void discard(root_link& self) noexcept {
    auto& root = static_cast<waited_promise&>(self);
    root.failure = std::make_exception_ptr(
        std::system_error(std::make_error_code(std::errc::operation_canceled),
                          "bwos::sync_wait: the pool has ended"));
    root.finish();
  }
  void finish() noexcept {
    if (posted_to_ != nullptr) posted_to_->work_finished();
    end.end();  // last: the frame may be gone
  }

  pool* posted_to_ = nullptr;
};

template <class T>
using waited_result = std::conditional_t<std::is_void_v<T>, std::monostate, std::optional<T>>;

template <class T>
waited_promise::waited wait_for(fork_task<T> work, waited_result<T>& result) {
  if constexpr (std::is_void_v<T>) {
    co_await std::move(work);
  } else {
    result.emplace(co_await std::move(work));
  }
}

}  // namespace detail

/// Runs `work` on a worker of `where` and waits for its end: its result, or its exception. On a
/// worker of that pool it starts here and now, and the worker runs other forked work while it
/// waits, never events or posted work, so that what `work` waits for must not need this worker: a
/// timer or a socket needs another one that is free, and where reactors are private
/// (options::reactor_group 1) it must not be this worker's. Elsewhere the thread sleeps, and
/// pool::join() waits for the end of `work`. Throws
/// std::system_error(std::errc::operation_canceled) where the pool's end has left it unfinished,
/// and std::bad_alloc.
template <class T>
T sync_wait(pool& where, fork_task<T> work) {
  struct owner {
    std::coroutine_handle<detail::waited_promise> frame;
    ~owner() { frame.destroy(); }
  };
  detail::waited_result<T> result;
  const owner root{detail::wait_for(std::move(work), result).frame};
  detail::waited_promise& promise = root.frame.promise();
  if (detail::forks* const here = detail::forks::here(where.core())) {
    root.frame.resume();
    here->wait(promise.end, promise.as_waited());
  } else {
    detail::outside_wait here_outside(where.core());
    promise.post_to(where);
    here_outside.until(promise.end, promise.as_waited());
  }
  if (promise.failure) std::rethrow_exception(promise.failure);
  if constexpr (!std::is_void_v<T>) return *std::move(result);
}
template <class T>
T sync_wait(pool& where, task<T> work) {
  return sync_wait(where, detail::as_fork_task(std::move(work)));
}

/// Calls `function` on a worker of `where` and waits for it: its result, no reference, or its
/// exception. On a worker of that pool it is a call. So a thread outside of the pool gets at what
/// works on it alone: `sync_wait(pool, [&] { bwos::invoke(left, right); })`.
template <std::invocable Function>
  requires(!requires(Function&& task) { std::move(task).operator co_await(); })
std::invoke_result_t<Function> sync_wait(pool& where, Function&& function) {
  using value = std::invoke_result_t<Function>;
  if (detail::forks::here(where.core()) != nullptr) return std::forward<Function>(function)();
  detail::waited_result<value> result;
  task_group group(where);
  group.run([&] {
    if constexpr (std::is_void_v<value>) {
      std::forward<Function>(function)();
    } else {
      result.emplace(std::forward<Function>(function)());
    }
  });
  group.wait();
  if constexpr (!std::is_void_v<value>) return *std::move(result);
}

}  // namespace bwos
