// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <concepts>
#include <coroutine>
#include <cstddef>
#include <optional>
#include <ranges>
#include <stop_token>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include <bwos/fork/forks.hpp>
#include <bwos/fork/memory.hpp>
#include <bwos/fork/scope.hpp>
#include <bwos/pool.hpp>
#include <bwos/task.hpp>

// Fork-join for coroutines: continuation stealing (Blumofe, Leiserson, JACM 46(5), 1999) over the
// workers' fork queues. For functions that are no coroutines there is <bwos/task_group.hpp>.

namespace bwos {

template <class T>
class fork_task;
template <class T>
class when_all_results;

namespace detail {

template <class T>
using fork_tasks = std::vector<fork_task<T>, fork_allocator<fork_task<T>>>;

/// Without a flag where nobody needs to know whether it was ever set.
template <class T>
class fork_result {
  static constexpr bool plain =
      std::is_trivially_copyable_v<T> && std::is_trivially_default_constructible_v<T>;

 public:
  template <class Value>
  void set(Value&& value) {
    if constexpr (plain) {
      value_ = static_cast<T>(std::forward<Value>(value));
    } else {
      value_.emplace(std::forward<Value>(value));
    }
  }
  T& get() noexcept {
    if constexpr (plain) {
      return value_;
    } else {
      return *value_;
    }
  }

 private:
  std::conditional_t<plain, T, std::optional<T>> value_;
};

template <class T>
class fork_promise final : public fork_promise_base {
  static_assert(std::is_object_v<T>, "return a value or nothing");

 public:
  [[nodiscard]] fork_task<T> get_return_object() noexcept;
  template <class Value = T>
    requires std::convertible_to<Value, T>
  void return_value(Value&& value) {
    result_.set(std::forward<Value>(value));
  }
  T& result() noexcept { return result_.get(); }
  T take() { return std::move(result()); }

 private:
  fork_result<T> result_;
};

template <>
class fork_promise<void> final : public fork_promise_base {
 public:
  [[nodiscard]] fork_task<void> get_return_object() noexcept;
  void return_void() const noexcept {}
  std::monostate take() const noexcept { return {}; }
};

/// Suspended coroutines of several types, which it owns.
template <class... T>
class fork_frames {
 public:
  explicit fork_frames(fork_task<T>&&... tasks) noexcept : frames_{tasks.release()...} {}
  fork_frames(const fork_frames&) = delete;
  fork_frames& operator=(const fork_frames&) = delete;
  ~fork_frames() {
    for (const std::coroutine_handle<> each : frames_) each.destroy();
  }

  [[nodiscard]] const void* data() const noexcept { return frames_.data(); }
  [[nodiscard]] std::size_t size() const noexcept { return frames_.size(); }
  template <std::size_t Index>
  [[nodiscard]] decltype(auto) take() {
    using promise = fork_promise<std::tuple_element_t<Index, std::tuple<T...>>>;
    return std::coroutine_handle<promise>::from_address(frames_[Index].address()).promise().take();
  }

 private:
  std::array<std::coroutine_handle<>, sizeof...(T)> frames_;
};

template <class Children>
class fork_awaiter {
 public:
  explicit fork_awaiter(Children children) noexcept : children_(std::move(children)) {}
  template <class... T>
  explicit fork_awaiter(fork_task<T>&&... children) noexcept : children_(std::move(children)...) {}

  [[nodiscard]] bool await_ready() const noexcept { return children_.size() == 0; }
  template <class Parent>
  std::coroutine_handle<> await_suspend(std::coroutine_handle<Parent> parent) noexcept {
    return scope_.start(parent, children_.data(), children_.size());
  }

 protected:
  Children children_;
  fork_scope scope_;
};

template <class... T>
class fork_each final : public fork_awaiter<fork_frames<T...>> {
 public:
  using fork_awaiter<fork_frames<T...>>::fork_awaiter;

  auto await_resume() {
    this->scope_.rethrow_failure();
    if constexpr (!(std::is_void_v<T> && ...)) return take(std::index_sequence_for<T...>());
  }

 private:
  template <std::size_t... I>
  auto take(std::index_sequence<I...> /*of T*/) {
    return std::tuple<decltype(this->children_.template take<I>())...>{
        this->children_.template take<I>()...};
  }
};

template <class T>
class fork_range final : public fork_awaiter<fork_tasks<T>> {
  static_assert(sizeof(fork_task<T>) == sizeof(std::coroutine_handle<>));

 public:
  using fork_awaiter<fork_tasks<T>>::fork_awaiter;

  auto await_resume() {
    this->scope_.rethrow_failure();
    if constexpr (!std::is_void_v<T>) return when_all_results<T>(std::move(this->children_));
  }
};

}  // namespace detail

/// A lazily started coroutine that may fork, and the owner of its frame. Nothing runs until it is
/// awaited (`co_await child()`, a call), forked (fork_join, when_all) or run (sync_wait, spawn),
/// once; its result or exception is the awaiter's. It may await what a bwos::task may: tasks,
/// streams, timers, pool::schedule().
///
/// After a co_await it may be on another worker; nothing thread-local, and no lock, may be kept
/// across one. Its frame comes from memory that its threads keep (detail::fork_memory), so that a
/// fork allocates nothing in a steady state. Types that need more alignment than operator new gives
/// may not be its result.
template <class T = void>
class [[nodiscard]] fork_task {
  struct awaiter;

 public:
  using promise_type = detail::fork_promise<T>;
  using value_type = T;

  fork_task() noexcept = default;
  fork_task(fork_task&& other) noexcept : frame_(std::exchange(other.frame_, nullptr)) {}
  fork_task& operator=(fork_task&& other) noexcept {
    fork_task(std::move(other)).swap(*this);
    return *this;
  }
  ~fork_task() {
    if (frame_) frame_.destroy();
  }

  void swap(fork_task& other) noexcept { std::swap(frame_, other.frame_); }
  [[nodiscard]] explicit operator bool() const noexcept { return frame_ != nullptr; }

  /// `co_await child()`: a call. It needs no stack, however deep the calls are.
  [[nodiscard]] awaiter operator co_await() && noexcept { return awaiter{frame_, {}}; }

  /// For the library: the frame, which is the caller's from now on.
  [[nodiscard]] std::coroutine_handle<promise_type> release() noexcept {
    return std::exchange(frame_, nullptr);
  }

 private:
  friend promise_type;
  friend when_all_results<T>;
  explicit fork_task(std::coroutine_handle<promise_type> frame) noexcept : frame_(frame) {
    static_assert(alignof(promise_type) <= __STDCPP_DEFAULT_NEW_ALIGNMENT__,
                  "the result needs more alignment than a coroutine's frame has");
  }

  std::coroutine_handle<promise_type> frame_;
};

template <class T>
struct fork_task<T>::awaiter {
  std::coroutine_handle<promise_type> child;
  detail::fork_call call;

  [[nodiscard]] bool await_ready() const noexcept { return false; }
  template <class Parent>
  std::coroutine_handle<> await_suspend(std::coroutine_handle<Parent> parent) noexcept {
    child.promise().called_by(parent, call);
    return detail::forks::transfer(detail::forks::here(), child);
  }
  T await_resume() {
    call.rethrow_failure();
    if constexpr (!std::is_void_v<T>) return child.promise().take();
  }
};

template <class T>
fork_task<T> detail::fork_promise<T>::get_return_object() noexcept {
  return fork_task<T>(std::coroutine_handle<fork_promise>::from_promise(*this));
}
inline fork_task<void> detail::fork_promise<void>::get_return_object() noexcept {
  return fork_task<void>(std::coroutine_handle<fork_promise>::from_promise(*this));
}

namespace detail {

template <class T>
fork_task<T> as_fork_task(fork_task<T>&& same) noexcept {
  return std::move(same);
}
template <class T>
fork_task<T> as_fork_task(task<T> wrapped) {
  co_return co_await std::move(wrapped);
}

template <class Task>
struct forked_value;
template <class T>
struct forked_value<fork_task<T>> {
  using type = T;
};
template <class T>
struct forked_value<task<T>> {
  using type = T;
};
template <class Task>
using forked_value_t = typename forked_value<std::remove_cvref_t<Task>>::type;

}  // namespace detail

/// `auto [x, y] = co_await fork_join(a(), b());` runs its children, fork_tasks or tasks, at the
/// same time where workers are free, and goes on when all have ended. The first runs here and now;
/// the rest, and what follows, is open to thieves meanwhile. Returns a tuple of their results, for
/// void std::monostate; nothing if all return nothing.
///
/// Exceptions: when all have ended, the first in time is thrown, the others are dropped
/// (worker_statistics::exceptions_dropped counts them). A child runs whether its siblings failed or
/// not. Off a pool, and where there is no memory for a fork, they run one after the other.
template <class... Child>
[[nodiscard]] auto fork_join(Child&&... children) {
  return detail::fork_each<detail::forked_value_t<Child>...>(
      detail::as_fork_task(std::forward<Child>(children))...);
}

/// What when_all() gives: the results of all children in their order. They lie where the children
/// left them, in frames that this owns, so that to pass them on costs nothing. One thread's.
template <class T>
class when_all_results {
 public:
  using value_type = T;
  class iterator {
   public:
    using value_type = T;
    using difference_type = std::ptrdiff_t;
    iterator() noexcept = default;
    explicit iterator(const fork_task<T>* at) noexcept : at_(at) {}
    [[nodiscard]] T& operator*() const noexcept { return of(*at_); }
    iterator& operator++() noexcept {
      ++at_;
      return *this;
    }
    iterator operator++(int) noexcept { return iterator(at_++); }
    [[nodiscard]] bool operator==(const iterator&) const noexcept = default;

   private:
    const fork_task<T>* at_ = nullptr;
  };

  /// For the library: `children` have ended.
  explicit when_all_results(detail::fork_tasks<T> children) noexcept
      : children_(std::move(children)) {}

  [[nodiscard]] std::size_t size() const noexcept { return children_.size(); }
  [[nodiscard]] bool empty() const noexcept { return children_.empty(); }
  [[nodiscard]] T& operator[](std::size_t index) noexcept { return of(children_[index]); }
  [[nodiscard]] iterator begin() const noexcept { return iterator(children_.data()); }
  [[nodiscard]] iterator end() const noexcept {
    return iterator(children_.data() + children_.size());
  }
  /// Moves them into a vector.
  [[nodiscard]] operator std::vector<T>() && {
    std::vector<T> results;
    results.reserve(size());
    for (T& each : *this) results.push_back(std::move(each));
    return results;
  }

 private:
  static T& of(const fork_task<T>& child) noexcept { return child.frame_.promise().result(); }

  detail::fork_tasks<T> children_;
};

/// The same for as many as there are in a range of fork_tasks or tasks: a container that is moved
/// here, or a view that makes them.
///
///     co_await when_all(std::views::iota(0, n) |
///                       std::views::transform([&](int i) { return part(i); }));
///
/// All are made before the first one runs. Returns a when_all_results<T>, which a std::vector<T>
/// can be made of; nothing if T is void.
template <std::ranges::input_range Range>
  requires(!std::is_reference_v<std::ranges::range_reference_t<Range>> ||
           !std::is_lvalue_reference_v<Range>)
[[nodiscard]] auto when_all(Range&& children) {
  using child = std::ranges::range_value_t<Range>;
  using value = detail::forked_value_t<child>;
  detail::fork_tasks<value> made;
  if constexpr (std::ranges::sized_range<Range>) made.reserve(std::ranges::size(children));
  for (auto&& each : children) {
    made.push_back(detail::as_fork_task(static_cast<child&&>(each)));
  }
  return detail::fork_range<value>(std::move(made));
}

/// `const std::stop_token token = co_await stop_token_here();` in a fork_task: of the nearest
/// with_stop() around it, however deep; one that is never stopped where there is none. A bwos::task
/// in between does not pass it on.
class stop_token_here {
 public:
  [[nodiscard]] bool await_ready() const noexcept { return false; }
  template <class Promise>
    requires std::derived_from<Promise, detail::fork_promise_base>
  bool await_suspend(std::coroutine_handle<Promise> caller) noexcept {
    stop_ = caller.promise().stop();
    return false;
  }
  [[nodiscard]] std::stop_token await_resume() const noexcept {
    return stop_ == nullptr ? std::stop_token() : *stop_;
  }

 private:
  const std::stop_token* stop_ = nullptr;
};

namespace detail {

struct set_stop_here {
  const std::stop_token* stop;
  [[nodiscard]] bool await_ready() const noexcept { return false; }
  template <class Promise>
  bool await_suspend(std::coroutine_handle<Promise> caller) const noexcept {
    caller.promise().set_stop(stop);
    return false;
  }
  void await_resume() const noexcept {}
};

}  // namespace detail

/// Runs `work` so that `token` reaches it and all that it calls and forks (stop_token_here). What
/// has not begun begins all the same: who wants to end early asks its token.
template <class T>
fork_task<T> with_stop(std::stop_token token, fork_task<T> work) {
  co_await detail::set_stop_here{&token};
  co_return co_await std::move(work);
}

}  // namespace bwos
