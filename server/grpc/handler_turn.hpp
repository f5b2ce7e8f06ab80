// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bwos/lane.hpp>
#include <bwos/waiter.hpp>
#include <coroutine>

#include "base/ticks.hpp"
#include "grpc/call.hpp"

namespace bwos::server::rpc {

/// Awaited by the coroutine around a handler, when the request has been parsed: the handler's turn,
/// here and now, or wherever the runner wants it to begin. Then the call is one whose handler has
/// suspended, as every other: from here to its end it belongs to the coroutine.
class handler_turn : coroutine_waiter {
 public:
  explicit handler_turn(call& of) noexcept : coroutine_waiter(&begin), call_(of) {}

  [[nodiscard]] bool await_ready() const noexcept { return call_.begins() == place::here; }
  template <class Promise>
  void await_suspend(std::coroutine_handle<Promise> waiting) noexcept {
    set(waiting);
    call_.hand_on(*this, entry_);
  }
  /// False: nobody wants an answer any more.
  [[nodiscard]] bool await_resume() const noexcept { return !call_.is_cancelled(); }

 private:
  /// Also of those that were handed on it is noted how long they run, so that a method that has
  /// become short leaves the lane; but not of those that nobody wants any more: they do not run.
  static void begin(continuation& self, disposition how) noexcept {
    auto& turn = static_cast<handler_turn&>(self);
    if (how == disposition::discard || turn.call_.is_cancelled()) return turn.finish(how);
    const auto [method, most] = turn.call_.timed_by();
    const metrics::ticks begun = metrics::now_ticks();
    turn.finish(how);  // neither it nor its call may be there any more
    method.note(metrics::now_ticks() - begun, most);
  }

  call& call_;
  lane_entry entry_;
};

}  // namespace bwos::server::rpc
