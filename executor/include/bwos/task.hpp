// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cassert>
#include <concepts>
#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <type_traits>
#include <utility>
#include <variant>

#include <bwos/continuation.hpp>
#include <bwos/fork/memory.hpp>
#include <bwos/pool.hpp>
#include <bwos/waiter.hpp>

// bwos::task: who starts it, who resumes whom, on which core.
//
// Roles. The parent awaits a task; the task's coroutine is its child. A child starts inside the
// parent's await_suspend, on the same thread, and runs until it first suspends. Whoever completes
// the operation that it waits for resumes it, perhaps on another worker, perhaps while that
// await_suspend has not yet returned. So two parties arrive at the child's phase_, once each: the
// starter, when the child's first run has returned to it, and the finisher, when the child has
// ended. The second to arrive lets the parent go on.
//
// INVARIANTS, and their tests in task_test.cpp and task_handshake_test.cpp
//
// T1  The parent goes on exactly once, after both parties arrived.      task_handshake.*
//
// T2  A child that ends during its first run returns to the starter, which goes on without
//     suspending. A loop of such awaits runs in constant stack without symmetric transfer, which
//     g++ -O0 and the sanitizers do not turn into a jump.               task_stack.*
//
// T3  A child that ends later resumes its parent by a nested call. The parent's next suspension
//     returns through it, so the depth of tasks bounds the stack, not their number. task_stack.*
//
// T4  A frame belongs to its task object, which lies in its parent's frame or its caller's. The
//     driver's frame, at the root of a detached chain, belongs to itself; destroying it frees the
//     chain.                                                            task_discard.*

namespace bwos {

template <class T>
class task;

namespace detail {

class fork_call;
class fork_scope;
class root_link;

/// A promise's place in its chain, which grows from a root: what discard_chain() follows. It costs
/// the hot path one store.
class frame_link {
 public:
  /// Destroys the whole chain if a detached frame is at its root; else does nothing, as the root
  /// has an owner. Where the chain comes out of a fork-join, the last of its children that is
  /// abandoned goes on for all of them.
  void abandon() noexcept;

 protected:
  enum class kind : std::uintptr_t { none, awaited, root, called, forked, last, unqueued };
  static constexpr std::uintptr_t kind_mask = 7;

  frame_link() noexcept = default;
  void set_up(kind how, void* to) noexcept {
    up_ = reinterpret_cast<std::uintptr_t>(to) | static_cast<std::uintptr_t>(how);
  }
  void set_parent(frame_link* parent) noexcept { set_up(kind::awaited, parent); }
  [[nodiscard]] kind up_kind() const noexcept { return static_cast<kind>(up_ & kind_mask); }
  template <class To>
  [[nodiscard]] To* up() const noexcept {
    return reinterpret_cast<To*>(up_ & ~kind_mask);
  }

 private:
  friend fork_scope;

  std::uintptr_t up_ = 0;
};

/// The root of a chain that belongs to itself.
class root_link : public frame_link {
 public:
  /// Frees the chain that hangs below.
  void destroy() noexcept { destroy_(*this); }

 protected:
  using destroy_function = void (*)(root_link&) noexcept;
  explicit root_link(destroy_function destroy) noexcept : destroy_(destroy) {
    set_up(kind::root, nullptr);
  }

 private:
  destroy_function destroy_;
};

class task_promise_base : public frame_link {
  struct final_awaiter {
    [[nodiscard]] bool await_ready() const noexcept { return false; }
    template <class Promise>
    void await_suspend(std::coroutine_handle<Promise> child) const noexcept {
      child.promise().finish();  // may destroy the child, this awaiter with it
    }
    void await_resume() const noexcept {}
  };

 public:
  [[nodiscard]] std::suspend_always initial_suspend() const noexcept { return {}; }
  [[nodiscard]] final_awaiter final_suspend() const noexcept { return {}; }

  static void* operator new(std::size_t size) { return fork_memory::allocate(size); }
  static void operator delete(void* memory, std::size_t size) noexcept {
    fork_memory::deallocate(memory, size);
  }

  /// Runs `child`, whose promise this is, up to its first suspension. False: it has finished, the
  /// parent goes on. True: the parent stays suspended and may be running elsewhere already; touch
  /// neither frame.
  template <class Parent>
  bool start(std::coroutine_handle<> child, std::coroutine_handle<Parent> parent) noexcept {
    parent_ = parent;
    if constexpr (std::derived_from<Parent, frame_link>) set_parent(&parent.promise());
    child.resume();
    return starter_arrives() != phase::finished;
  }

 private:
  enum class phase : std::uint8_t { running, suspended, finished };

  void finish() noexcept {
    // Read before arriving: the starter, once it knows, may destroy this frame.
    const std::coroutine_handle<> parent = parent_;
    if (finisher_arrives() == phase::suspended) parent.resume();
  }

  phase starter_arrives() noexcept {
    // [task.start] acq_rel: release hands the suspended parent's frame to a finisher that comes
    // second and resumes it on its own thread; acquire takes over the child's result where the
    // finisher came first. Partner: [task.finish].
    return phase_.exchange(phase::suspended, std::memory_order_acq_rel);
  }
  phase finisher_arrives() noexcept {
    // [task.finish] acq_rel: release hands the child's result to a starter that comes second;
    // acquire takes over the suspended parent where the starter came first. Partner: [task.start].
    return phase_.exchange(phase::finished, std::memory_order_acq_rel);
  }

  std::coroutine_handle<> parent_;
  std::atomic<phase> phase_ = phase::running;
};

template <class T>
class task_promise final : public task_promise_base {
  static_assert(!std::is_rvalue_reference_v<T>, "return by value instead");

 public:
  [[nodiscard]] task<T> get_return_object() noexcept;
  void return_value(T reference) noexcept
    requires std::is_reference_v<T>
  {
    result_.template emplace<1>(std::addressof(reference));
  }
  template <class Value = T>
    requires(!std::is_reference_v<T> && std::convertible_to<Value, T>)
  void return_value(Value&& value) {
    result_.template emplace<1>(std::forward<Value>(value));
  }
  void unhandled_exception() noexcept { result_.template emplace<2>(std::current_exception()); }

  T take() {
    if (result_.index() == 2) std::rethrow_exception(std::get<2>(std::move(result_)));
    if constexpr (std::is_reference_v<T>) {
      return *std::get<1>(result_);
    } else {
      return std::get<1>(std::move(result_));
    }
  }

 private:
  using stored = std::conditional_t<std::is_reference_v<T>, std::remove_reference_t<T>*, T>;
  std::variant<std::monostate, stored, std::exception_ptr> result_;
};

template <>
class task_promise<void> final : public task_promise_base {
 public:
  [[nodiscard]] task<void> get_return_object() noexcept;
  void return_void() const noexcept {}
  void unhandled_exception() noexcept { exception_ = std::current_exception(); }
  void take() {
    if (exception_) std::rethrow_exception(std::exchange(exception_, nullptr));
  }

 private:
  std::exception_ptr exception_;
};

}  // namespace detail

/// A lazily started coroutine, and the owner of its frame. Nothing runs until it is awaited,
/// spawned or detached, once; its result or exception is the awaiter's. Awaiting allocates nothing:
/// the frame was made by the call.
///
/// It runs on the thread of its awaiter until it waits for an operation, and then where that
/// completes it: on a worker of the pool that the operation belongs to. After a co_await it may be
/// on another worker; nothing thread-local may be kept across one. Two coroutines never run one
/// task at the same time.
///
/// A task may be destroyed unstarted, finished, or suspended in an operation that nobody will
/// complete any more.
template <class T = void>
class [[nodiscard]] task {
  struct awaiter;

 public:
  using promise_type = detail::task_promise<T>;

  task() noexcept = default;
  task(task&& other) noexcept : frame_(std::exchange(other.frame_, nullptr)) {}
  task& operator=(task&& other) noexcept {
    task(std::move(other)).swap(*this);
    return *this;
  }
  ~task() {
    if (frame_) frame_.destroy();
  }

  void swap(task& other) noexcept { std::swap(frame_, other.frame_); }
  [[nodiscard]] explicit operator bool() const noexcept { return frame_ != nullptr; }

  /// `co_await child()` or `co_await std::move(kept)`: once.
  [[nodiscard]] awaiter operator co_await() && noexcept {
    assert(frame_ && !frame_.done());
    return awaiter{frame_};
  }

 private:
  friend promise_type;
  explicit task(std::coroutine_handle<promise_type> frame) noexcept : frame_(frame) {}

  std::coroutine_handle<promise_type> frame_;
};

template <class T>
struct task<T>::awaiter {
  std::coroutine_handle<promise_type> child;

  [[nodiscard]] bool await_ready() const noexcept { return false; }
  template <class Parent>
  bool await_suspend(std::coroutine_handle<Parent> parent) const noexcept {
    return child.promise().start(child, parent);
  }
  T await_resume() const { return child.promise().take(); }
};

template <class T>
task<T> detail::task_promise<T>::get_return_object() noexcept {
  return task<T>(std::coroutine_handle<task_promise>::from_promise(*this));
}

inline task<void> detail::task_promise<void>::get_return_object() noexcept {
  return task<void>(std::coroutine_handle<task_promise>::from_promise(*this));
}

/// Called once when a detached task's frames have been freed: it ended, or was discarded. On the
/// thread where that happened.
using end_function = void (*)(void* context) noexcept;

namespace detail {

class driver_promise;

struct driver {
  using promise_type = driver_promise;
  driver_promise& promise;
};

/// Root of a detached chain: of a coroutine that owns a task, and itself. It is the continuation
/// that starts it.
class driver_promise final : public continuation, public root_link {
  using handle = std::coroutine_handle<driver_promise>;
  struct end_awaiter {
    [[nodiscard]] bool await_ready() const noexcept { return false; }
    void await_suspend(handle frame) const noexcept { end(frame); }
    void await_resume() const noexcept {}
  };

 public:
  driver_promise() noexcept : continuation(&start), root_link(&destroy) {}

  [[nodiscard]] driver get_return_object() noexcept { return {*this}; }
  [[nodiscard]] std::suspend_always initial_suspend() const noexcept { return {}; }
  [[nodiscard]] end_awaiter final_suspend() const noexcept { return {}; }
  void return_void() const noexcept {}
  [[noreturn]] void unhandled_exception() const noexcept { std::terminate(); }

  void on_end(end_function call, void* context) noexcept {
    on_end_ = call;
    context_ = context;
  }

 private:
  static void end(handle frame) noexcept {
    const end_function on_end = frame.promise().on_end_;
    void* const context = frame.promise().context_;
    frame.destroy();  // before the call: who counts ends may rely on everything being freed
    if (on_end != nullptr) on_end(context);
  }
  static void start(continuation& self, disposition how) noexcept {
    const handle frame = handle::from_promise(static_cast<driver_promise&>(self));
    if (how == disposition::run) {
      frame.resume();
    } else {
      end(frame);
    }
  }
  static void destroy(root_link& self) noexcept {
    end(handle::from_promise(static_cast<driver_promise&>(self)));
  }

  end_function on_end_ = nullptr;
  void* context_ = nullptr;
};

inline driver drive(task<void> work) {
  co_await std::move(work);
}

}  // namespace detail

/// Starts `work` here and now; returns at its first suspension, or its end. From then on it owns
/// itself. `on_end` may be null. An exception that escapes `work` is std::terminate. If what it
/// waits for is discarded, its frames are destroyed without running further, and `on_end` is called
/// all the same.
inline void detach(task<void> work, end_function on_end = nullptr, void* context = nullptr) {
  detail::driver_promise& root = detail::drive(std::move(work)).promise;
  root.on_end(on_end, context);
  root.invoke(root, continuation::disposition::run);
}

/// Queues `work` on `where`; from then on it owns itself, and join() waits for its end. Any thread.
/// An exception that escapes `work` is std::terminate. If the pool ends first, its frames are
/// destroyed without running (further).
inline void spawn(pool& where, task<void> work) {
  detail::driver_promise& root = detail::drive(std::move(work)).promise;
  root.on_end([](void* at) noexcept { static_cast<pool*>(at)->work_finished(); }, &where);
  where.work_started();
  where.post(root);
}

}  // namespace bwos
