// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <coroutine>
#include <type_traits>

#include <bwos/continuation.hpp>

namespace bwos {

/// Destroys the detached chain of coroutines whose innermost frame is `waiting`, so that work which
/// will never go on (its pool or reactor ended first) is freed. What "the chain" is says the
/// promise's `abandon()`: a task's walks to the frame that spawn() or detach() made and destroys
/// that one, and with it every task that hangs below. Promises without `abandon()` are left alone:
/// their frames are their owners' to destroy.
///
/// The caller's own object may lie in a destroyed frame: call this last. Only where no thread is
/// inside any frame of the chain, which means after the workers have been joined, never from an
/// await_suspend.
template <class Promise>
void discard_chain(std::coroutine_handle<Promise> waiting) noexcept {
  if constexpr (!std::is_void_v<Promise>) {
    if constexpr (requires(Promise& promise) { promise.abandon(); }) waiting.promise().abandon();
  }
}

/// The continuation of a suspended coroutine: base of every awaiter of this library (an I/O
/// operation, a timer, pool::schedule()). It lies in the coroutine's frame, so that a wait
/// allocates nothing. `set` is called in await_suspend, before anybody else can see the waiter;
/// once the waiter has been handed on, await_suspend touches neither it nor the frame, because the
/// coroutine may be running elsewhere already.
class coroutine_waiter : public continuation {
 public:
  coroutine_waiter() noexcept : continuation(&on_invoke) {}
  /// For awaiters that have something to do before the coroutine goes on: theirs calls finish()
  /// last.
  explicit coroutine_waiter(function on_invoke) noexcept : continuation(on_invoke) {}

  template <class Promise>
  void set(std::coroutine_handle<Promise> waiting) noexcept {
    waiting_ = waiting;
    discard_ = [](std::coroutine_handle<> erased) noexcept {
      discard_chain(std::coroutine_handle<Promise>::from_address(erased.address()));
    };
  }

  /// run: the coroutine goes on, here and now. discard: see discard_chain. Both may destroy this
  /// waiter.
  void finish(disposition how) noexcept {
    if (how == disposition::run) {
      waiting_.resume();
    } else {
      discard_(waiting_);
    }
  }

 private:
  static void on_invoke(continuation& self, disposition how) noexcept {
    static_cast<coroutine_waiter&>(self).finish(how);
  }

  std::coroutine_handle<> waiting_;
  void (*discard_)(std::coroutine_handle<>) noexcept = nullptr;
};

/// Awaitable: hands the suspended coroutine's continuation to `hand_on`, which queues it. That lies
/// in the coroutine's frame, too, and so touches nothing of its own once it has.
template <class HandOn>
class handed_on : coroutine_waiter {
 public:
  explicit handed_on(HandOn hand_on) noexcept : hand_on_(hand_on) {}
  bool await_ready() const noexcept { return false; }
  template <class Promise>
  void await_suspend(std::coroutine_handle<Promise> waiting) noexcept {
    set(waiting);
    hand_on_(*this);
  }
  void await_resume() const noexcept {}

 private:
  HandOn hand_on_;
};

}  // namespace bwos
