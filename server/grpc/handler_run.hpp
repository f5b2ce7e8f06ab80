// SPDX-License-Identifier: Apache-2.0
// The coroutine around a handler: who starts it, who learns that it has ended.
//
// Two parties arrive at its phase, once each: the starter, when the first run has returned to it,
// and the finisher, when the coroutine has ended. A handler that never suspends ends in its first
// run, and its starter goes on with the result; otherwise the finisher, on whatever thread, gives
// the call back through its connection's inbox. As bwos::task has it (T1).
#pragma once

#include <atomic>
#include <bwos/task.hpp>
#include <coroutine>
#include <cstdint>
#include <utility>

#include "base/thread_memory.hpp"

namespace bwos::server::rpc {

class call;

class handler_run {
 public:
  class promise_type;

  handler_run() noexcept = default;
  handler_run(handler_run&& other) noexcept : frame_(std::exchange(other.frame_, nullptr)) {}
  handler_run& operator=(handler_run&& other) noexcept {
    std::swap(frame_, other.frame_);
    return *this;
  }
  ~handler_run() {
    if (frame_) frame_.destroy();
  }

  /// Runs it up to its first suspension. True: it has ended. False: it goes on by itself, and ends
  /// with call::handler_ended(), or call::handler_discarded() if its pool ends first; both may have
  /// happened already.
  [[nodiscard]] bool start() noexcept;

  /// It goes away by itself: it was discarded.
  void release() noexcept { frame_ = nullptr; }

 private:
  explicit handler_run(std::coroutine_handle<promise_type> frame) noexcept : frame_(frame) {}
  std::coroutine_handle<promise_type> frame_;
};

/// Root of the chain that a suspended handler waits at the end of: discarding that destroys it.
class handler_run::promise_type : public bwos::detail::root_link, public in_thread_memory {
  struct end_awaiter {
    [[nodiscard]] bool await_ready() const noexcept { return false; }
    void await_suspend(std::coroutine_handle<promise_type> frame) const noexcept {
      frame.promise().finish();  // may destroy the frame, this awaiter with it
    }
    void await_resume() const noexcept {}
  };

 public:
  template <class... Rest>
  explicit promise_type(call& of, const Rest&...) noexcept : root_link(&discard), call_(of) {}

  [[nodiscard]] handler_run get_return_object() noexcept {
    return handler_run(std::coroutine_handle<promise_type>::from_promise(*this));
  }
  [[nodiscard]] std::suspend_always initial_suspend() const noexcept { return {}; }
  [[nodiscard]] end_awaiter final_suspend() const noexcept { return {}; }
  void return_void() const noexcept {}
  void unhandled_exception() noexcept;

 private:
  friend class handler_run;
  enum class phase : std::uint8_t { running, suspended, ended };

  [[nodiscard]] phase starter_arrives() noexcept {
    // [run.start] acq_rel: release of the call, to the finisher that gives it back; acquire of the
    // result, where the finisher came first. Partner: [run.finish].
    return phase_.exchange(phase::suspended, std::memory_order_acq_rel);
  }
  [[nodiscard]] phase finisher_arrives() noexcept {
    // [run.finish] acq_rel: the other way round. Partner: [run.start].
    return phase_.exchange(phase::ended, std::memory_order_acq_rel);
  }
  void finish() noexcept;
  static void discard(root_link& self) noexcept;

  call& call_;
  std::atomic<phase> phase_{phase::running};
};

inline bool handler_run::start() noexcept {
  frame_.resume();
  return frame_.promise().starter_arrives() == promise_type::phase::ended;
}

}  // namespace bwos::server::rpc
