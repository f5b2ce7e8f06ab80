// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <grpcpp/grpcpp.h>

#include <atomic>
#include <bwos/continuation.hpp>
#include <bwos/pool.hpp>
#include <chrono>
#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <exception>

namespace bwos::server {

/// The coroutine of one armed call: starts at once, destroys its frame when it ends.
struct call_loop {
  struct promise_type {
    call_loop get_return_object() noexcept { return {}; }
    std::suspend_never initial_suspend() noexcept { return {}; }
    std::suspend_never final_suspend() noexcept { return {}; }
    void return_void() noexcept {}
    [[noreturn]] void unhandled_exception() noexcept { std::terminate(); }
  };
};

/// What the coroutine of an armed call waits for. gRPC delivers three tags for each call, each the
/// address of this object plus an `event`; the poller turns them into one post to the pool for each
/// await, without an allocation. Serves one call after the other, from before the pollers start.
///
/// INVARIANTS
/// C1  `accepted` comes first. If it is not ok, neither of the others comes.
///
/// C2  After an ok `accepted`, `closed` comes exactly once, at any time; early if the call was
///     cancelled.
///
/// C3  `answered` comes exactly once after each finish(). Whichever of it and `closed` comes second
///     posts; if `closed` came before finish(), the call may also end without one.
///
/// gRPC orders what it does with a tag before the tag's delivery, but in ways that a race detector
/// does not see; each step therefore also hands over through `state_`. Test of all:
/// tests/grpc/calls_test.cpp and lifecycle_test.cpp, under TSan.
class call_steps : public continuation {
 public:
  enum event : std::uint8_t { accepted, answered, closed };

  explicit call_steps(pool& workers) noexcept : continuation(&resume), workers_(workers) {}

  /// For pollers: what the queue delivered.
  static void deliver(void* tag, bool ok) noexcept {
    const auto which =
        static_cast<event>(reinterpret_cast<std::uintptr_t>(tag) % alignof(call_steps));
    auto* const self = reinterpret_cast<call_steps*>(static_cast<std::byte*>(tag) - which);
    self->arrived(which, ok);
  }

  [[nodiscard]] void* tag(event which) noexcept {
    return reinterpret_cast<std::byte*>(this) + which;
  }

  /// Forgets the call before, of which nothing is outstanding.
  void begin() noexcept {
    // [call.begin] relaxed: the poller looks at it only after [call.start].
    state_.store(0, std::memory_order_relaxed);
  }

  void wait_with(std::coroutine_handle<> handle) noexcept {
    waiting_ = handle;
    // [call.start] release: what the coroutine wrote is the poller's to read. Partner:
    // [call.arrive].
    state_.fetch_and(static_cast<std::uint8_t>(~bit_ok), std::memory_order_release);
  }

  /// The last step's ok: it was accepted, or its answer was sent.
  [[nodiscard]] bool step_ok() const noexcept { return has(bit_ok); }
  [[nodiscard]] bool has_closed() const noexcept { return has(bit_closed); }

 private:
  static constexpr std::uint8_t bit_ok = 1;
  static constexpr std::uint8_t bit_answered = 2;
  static constexpr std::uint8_t bit_closed = 4;

  [[nodiscard]] bool has(std::uint8_t bit) const noexcept {
    // [call.look] acquire: before the context is asked why it was closed. Partner: [call.arrive].
    return (state_.load(std::memory_order_acquire) & bit) != 0;
  }

  void arrived(event which, bool ok) noexcept {
    static constexpr std::uint8_t bits[] = {0, bit_answered, bit_closed};
    const auto news =
        static_cast<std::uint8_t>(bits[which] | (ok && which != closed ? bit_ok : std::uint8_t{0}));
    // [call.arrive] acq_rel: release to [call.look] and to the poster, if that is another poller's
    // thread; acquire of [call.start], and, for the one that posts, of the other's arrival.
    const std::uint8_t before = state_.fetch_or(news, std::memory_order_acq_rel);
    const bool complete = which == accepted || (which == answered && (before & bit_closed) != 0) ||
                          (which == closed && (before & bit_answered) != 0);
    if (complete) workers_.post(*this);  // Otherwise the call, and *this, may be gone already (C3).
  }

  static void resume(continuation& self, disposition how) noexcept {
    // Discarded: only where the pool ends before the server, against its contract; the frame leaks.
    if (how == disposition::run) static_cast<call_steps&>(self).waiting_.resume();
  }

  pool& workers_;
  std::coroutine_handle<> waiting_;
  std::atomic<std::uint8_t> state_{0};
};

static_assert(alignof(call_steps) > call_steps::closed, "a tag must have room for the event");

/// AsyncService::RequestX of a unary method X.
template <class Service, class Request, class Reply>
using arm_function = void (Service::*)(grpc::ServerContext*, Request*,
                                       grpc::ServerAsyncResponseWriter<Reply>*,
                                       grpc::CompletionQueue*, grpc::ServerCompletionQueue*, void*);

/// One unary call, from its arming to its end.
template <class Request, class Reply>
class unary_call {
 public:
  explicit unary_call(call_steps& steps) : steps_(steps) {
    steps_.begin();
    context_.AsyncNotifyWhenDone(steps_.tag(call_steps::closed));
  }

  Request request;
  Reply reply;

  /// Awaitable of bool: false when the server stops. Once, first.
  template <class Service>
  [[nodiscard]] auto accept(Service& service, arm_function<Service, Request, Reply> arm,
                            grpc::ServerCompletionQueue& queue) noexcept {
    struct awaiter {
      bool await_ready() const noexcept { return false; }
      void await_suspend(std::coroutine_handle<> handle) {
        call_.begin_accept(handle, service_, arm_, queue_);
      }
      bool await_resume() const noexcept { return call_.steps_.step_ok(); }

      unary_call& call_;
      Service& service_;
      arm_function<Service, Request, Reply> arm_;
      grpc::ServerCompletionQueue& queue_;
    };
    return awaiter{*this, service, arm, queue};
  }

  /// Awaitable of bool: whether the answer went out to a caller that still wanted it. Once, last.
  [[nodiscard]] auto finish(const grpc::Status& status) noexcept {
    struct awaiter {
      bool await_ready() const noexcept { return false; }
      void await_suspend(std::coroutine_handle<> handle) { call_.begin_finish(handle, status_); }
      bool await_resume() const noexcept {
        return call_.steps_.step_ok() && !call_.context_.IsCancelled();
      }

      unary_call& call_;
      const grpc::Status& status_;
    };
    return awaiter{*this, status};
  }

  /// The caller is gone before it was answered: nobody would read an answer; finish() is not
  /// needed.
  [[nodiscard]] bool abandoned() const noexcept { return steps_.has_closed(); }
  [[nodiscard]] bool past_deadline() const {
    return context_.deadline() <= std::chrono::system_clock::now();
  }

 private:
  // After wait_with() the coroutine may go on at any moment, on another thread, and even end: from
  // there on both touch only their arguments and what gRPC asks for.
  template <class Service>
  void begin_accept(std::coroutine_handle<> handle, Service& service,
                    arm_function<Service, Request, Reply> arm, grpc::ServerCompletionQueue& queue) {
    void* const tag = steps_.tag(call_steps::accepted);
    steps_.wait_with(handle);
    (service.*arm)(&context_, &request, &responder_, &queue, &queue, tag);
  }

  void begin_finish(std::coroutine_handle<> handle, const grpc::Status& status) {
    void* const tag = steps_.tag(call_steps::answered);
    const bool ok = status.ok();
    steps_.wait_with(handle);
    if (ok) {
      responder_.Finish(reply, status, tag);
    } else {
      responder_.FinishWithError(status, tag);
    }
  }

  call_steps& steps_;
  grpc::ServerContext context_;
  grpc::ServerAsyncResponseWriter<Reply> responder_{&context_};
};

}  // namespace bwos::server
