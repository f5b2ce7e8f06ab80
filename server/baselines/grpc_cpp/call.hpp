// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <grpcpp/grpcpp.h>
#include <grpcpp/impl/codegen/proto_utils.h>
#include <grpcpp/impl/rpc_service_method.h>
#include <grpcpp/impl/service_type.h>
#include <grpcpp/support/async_stream.h>
#include <grpcpp/support/async_unary_call.h>

#include <atomic>
#include <bwos/continuation.hpp>
#include <chrono>
#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "grpc/handlers.hpp"
#include "grpc/metadata.hpp"
#include "net/executor.hpp"

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

/// One read or write of a stream. Two parties arrive, once each: who started it, when gRPC's call
/// has returned to it, and `deliver`, when it is complete; the last makes the coroutine go on. So
/// nothing that a starting operation still reads goes away under it (as C4, below).
/// Test: tests/clients/interop_test.cpp, under TSan.
class alignas(8) call_operation {
 public:
  explicit call_operation(executor& workers) noexcept : workers_(workers) {}
  call_operation(const call_operation&) = delete;
  call_operation& operator=(const call_operation&) = delete;

  void begin(continuation& waiting) noexcept {
    waiting_ = &waiting;
    // [operation.begin] relaxed: gRPC learns of the tag only after this, in the same thread.
    // Partner: [operation.arrive].
    parties_.store(0, std::memory_order_relaxed);
  }
  [[nodiscard]] void* tag() noexcept;
  /// True: the coroutine waits; *this and its frame may be gone.
  [[nodiscard]] bool started() noexcept { return !arrive(starter); }
  /// Once both have arrived.
  [[nodiscard]] bool ok() const noexcept {
    // [operation.ok] relaxed: whoever was last has handed it on. Partner: [operation.arrive].
    return (parties_.load(std::memory_order_relaxed) & succeeded) != 0;
  }

  static void deliver(void* which, bool ok) noexcept {
    auto& self = *static_cast<call_operation*>(which);
    const bool last = self.arrive(ok ? completer | succeeded : completer);
    if (last) self.workers_.post(*self.waiting_);  // otherwise self may be gone already
  }

 private:
  static constexpr std::uint8_t starter = 1;
  static constexpr std::uint8_t completer = 2;
  static constexpr std::uint8_t succeeded = 4;

  [[nodiscard]] bool arrive(std::uint8_t party) noexcept {
    constexpr std::uint8_t both = starter | completer;
    // [operation.arrive] acq_rel: release of what this party did, acquire of what the other did.
    // Partner: [operation.arrive].
    return ((parties_.fetch_or(party, std::memory_order_acq_rel) | party) & both) == both;
  }

  executor& workers_;
  continuation* waiting_ = nullptr;
  std::atomic<std::uint8_t> parties_{0};
};

/// What the coroutine of an armed call waits for. gRPC delivers three tags for each call, each the
/// address of this object plus an `event`; the poller turns them into at most one post to the
/// executor for each await, without an allocation. Serves one call after the other, from before the
/// pollers start.
///
/// INVARIANTS
/// C1  `accepted` comes once after each arming, and first. If it is not ok, neither of the others
///     comes.
///
/// C2  After an ok `accepted`, `closed` comes exactly once, at any time; early if the call was
///     cancelled.
///
/// C3  `answered` comes exactly once after each finish(). If `closed` came before finish(), the
///     call may also end without one.
///
/// C4  The coroutine goes on when the last of its step's parties is done: of an arming the one that
///     armed and `accepted`; of a finish() the one that began it, `answered` and `closed`. So
///     nothing that a starting gRPC call still reads goes away under it, and each step orders all
///     that its parties did by `state_` alone: what gRPC orders inside is invisible to a race
///     detector.
///
/// Test of all: tests/clients/calls_test.cpp and lifecycle_test.cpp, under TSan.
class call_steps : public continuation {
 public:
  enum event : std::uint8_t { accepted, answered, closed, operation };

  explicit call_steps(executor& workers) noexcept : continuation(&resume), workers_(workers) {}

  /// For pollers: what the queue delivered.
  static void deliver(void* tag, bool ok) noexcept {
    const auto which =
        static_cast<event>(reinterpret_cast<std::uintptr_t>(tag) % alignof(call_steps));
    if (which == operation)
      return call_operation::deliver(static_cast<std::byte*>(tag) - which, ok);
    auto* const self = reinterpret_cast<call_steps*>(static_cast<std::byte*>(tag) - which);
    static constexpr std::uint8_t bits[] = {bit_accepted, bit_answered, bit_closed};
    static constexpr std::uint8_t oks[] = {bit_taken, bit_sent, 0};
    const bool last = self->done(bits[which], ok ? oks[which] : std::uint8_t{0});
    if (last) self->workers_.post(*self);  // Otherwise *self may be gone already (C4).
  }

  [[nodiscard]] void* tag(event which) noexcept {
    return reinterpret_cast<std::byte*>(this) + which;
  }

  /// Forgets the call before, of which nothing is outstanding. The handle is the one to resume in
  /// both steps.
  void begin(std::coroutine_handle<> handle) noexcept {
    waiting_ = handle;
    // [call.begin] relaxed: gRPC learns of the tags only after this, in the same thread. Partner:
    // [call.done].
    state_.store(0, std::memory_order_relaxed);
  }

  /// For the coroutine's await_suspend, after the call of gRPC's that starts the step: true when
  /// it has to wait; *this and its frame may then be gone.
  [[nodiscard]] bool armed() noexcept { return !done(bit_armed, 0); }
  [[nodiscard]] bool finishing() noexcept { return !done(bit_finishing, 0); }

  [[nodiscard]] bool was_taken() const noexcept { return has(bit_taken); }
  [[nodiscard]] bool was_sent() const noexcept { return has(bit_sent); }
  [[nodiscard]] bool has_closed() const noexcept { return has(bit_closed); }

 private:
  static constexpr std::uint8_t bit_armed = 1;
  static constexpr std::uint8_t bit_accepted = 2;
  static constexpr std::uint8_t bit_finishing = 4;
  static constexpr std::uint8_t bit_answered = 8;
  static constexpr std::uint8_t bit_closed = 16;
  static constexpr std::uint8_t bit_taken = 32;  // `accepted` was ok.
  static constexpr std::uint8_t bit_sent = 64;   // `answered` was ok.
  static constexpr std::uint8_t accept_step = bit_armed | bit_accepted;
  static constexpr std::uint8_t finish_step = bit_finishing | bit_answered | bit_closed;

  [[nodiscard]] bool has(std::uint8_t bit) const noexcept {
    // [call.look] acquire: before the context is asked why it was closed. Partner: [call.done].
    return (state_.load(std::memory_order_acquire) & bit) != 0;
  }

  /// One party of a step is done; true for the last, which makes the coroutine go on.
  [[nodiscard]] bool done(std::uint8_t party, std::uint8_t ok) noexcept {
    const std::uint8_t step = (party & accept_step) != 0 ? accept_step : finish_step;
    const auto news = static_cast<std::uint8_t>(party | ok);
    // [call.done] acq_rel: release of what this party did, to the last; acquire, for the last, of
    // what the others did. Partners: [call.done], [call.look].
    const std::uint8_t before = state_.fetch_or(news, std::memory_order_acq_rel);
    return ((before | news) & step) == step;
  }

  static void resume(continuation& self, disposition how) noexcept {
    // Discarded: only where the executor ends before the server, against its contract; the frame
    // leaks.
    if (how == disposition::run) static_cast<call_steps&>(self).waiting_.resume();
  }

  executor& workers_;
  std::coroutine_handle<> waiting_;
  std::atomic<std::uint8_t> state_{0};
};

static_assert(alignof(call_steps) > call_steps::operation, "a tag must have room for the event");
static_assert(alignof(call_operation) >= alignof(call_steps), "and an operation's be told by it");

inline void* call_operation::tag() noexcept {
  return reinterpret_cast<std::byte*>(this) + call_steps::operation;
}

using byte_stream = grpc::ServerAsyncReaderWriter<grpc::ByteBuffer, grpc::ByteBuffer>;

/// Methods registered by their paths instead of by generated code, which does the same.
class method_service final : public grpc::Service {
 public:
  /// Before the server is built. The path must live as long as the service. Returns its number.
  int add(const char* path, bool streams) {
    using grpc::internal::RpcMethod;
    AddMethod(new grpc::internal::RpcServiceMethod(
        path, streams ? RpcMethod::BIDI_STREAMING : RpcMethod::NORMAL_RPC, nullptr));
    MarkMethodAsync(count_);
    return count_++;
  }
  /// Arms one call.
  template <class Request, class Reply>
  void request(int method, grpc::ServerContext& context, Request& request,
               grpc::ServerAsyncResponseWriter<Reply>& responder,
               grpc::ServerCompletionQueue& queue, void* tag) {
    RequestAsyncUnary(method, &context, &request, &responder, &queue, &queue, tag);
  }

  void request(int method, grpc::ServerContext& context, byte_stream& stream,
               grpc::ServerCompletionQueue& queue, void* tag) {
    RequestAsyncBidiStreaming(method, &context, &stream, &queue, &queue, tag);
  }

 private:
  int count_ = 0;
};

/// What calls of every kind are to their handlers.
class cpp_context : public rpc::context {
 public:
  /// The caller is gone before it was answered: nobody would read an answer; finish() is not
  /// needed.
  [[nodiscard]] bool is_cancelled() const noexcept override { return steps_.has_closed(); }
  [[nodiscard]] std::chrono::steady_clock::time_point deadline() const override {
    const auto when = context_.deadline();
    if (when == std::chrono::system_clock::time_point::max()) {
      return std::chrono::steady_clock::time_point::max();
    }
    return std::chrono::steady_clock::now() + (when - std::chrono::system_clock::now());
  }
  [[nodiscard]] std::vector<std::string> metadata(std::string_view name) const override {
    std::vector<std::string> found;
    const auto [first, last] = context_.client_metadata().equal_range({name.data(), name.size()});
    for (auto each = first; each != last; ++each) {
      found.emplace_back(each->second.data(), each->second.size());
    }
    return found;
  }
  [[nodiscard]] std::vector<std::string> metadata_names() const override {
    std::vector<std::string> names;
    const auto& all = context_.client_metadata();
    for (auto each = all.begin(); each != all.end(); each = all.upper_bound(each->first)) {
      names.emplace_back(each->first.data(), each->first.size());
    }
    return names;
  }
  bool add_initial_metadata(std::string_view name, std::string_view value) override {
    if (begun_ || !rpc::is_custom_metadata(name, value)) return false;
    if (!initial_room_.take(name, value)) return false;
    context_.AddInitialMetadata(std::string(name), std::string(value));
    return true;
  }
  bool add_trailing_metadata(std::string_view name, std::string_view value) override {
    if (name != rpc::status_details && !rpc::is_custom_metadata(name, value)) return false;
    if (!trailing_room_.take(name, value)) return false;
    context_.AddTrailingMetadata(std::string(name), std::string(value));
    return true;
  }
  void compress_replies() override {
    if (!begun_) context_.set_compression_level(GRPC_COMPRESS_LEVEL_HIGH);
  }
  [[nodiscard]] bool keep(std::size_t /*bytes*/) noexcept override { return true; }
  [[nodiscard]] bool past_deadline() const {
    return context_.deadline() <= std::chrono::system_clock::now();
  }

 protected:
  explicit cpp_context(call_steps& steps) : steps_(steps) {
    context_.AsyncNotifyWhenDone(steps_.tag(call_steps::closed));
  }
  ~cpp_context() = default;

  call_steps& steps_;
  grpc::ServerContext context_;
  bool begun_ = false;  // a message was written
  rpc::sent_metadata initial_room_;
  rpc::sent_metadata trailing_room_;
};

/// One unary call, from its arming to its end.
template <class Request, class Reply>
class unary_call final : public cpp_context {
 public:
  unary_call(call_steps& steps, executor& /*workers*/) : cpp_context(steps) {}

  Request request;
  Reply reply;

  /// Awaitable of bool: false when the server stops. Once, first.
  [[nodiscard]] auto accept(method_service& service, int method,
                            grpc::ServerCompletionQueue& queue) noexcept {
    struct awaiter {
      bool await_ready() const noexcept { return false; }
      bool await_suspend(std::coroutine_handle<> handle) {
        call_.steps_.begin(handle);
        service_.request(method_, call_.context_, call_.request, call_.responder_, queue_,
                         call_.steps_.tag(call_steps::accepted));
        return call_.steps_.armed();
      }
      bool await_resume() const noexcept { return call_.steps_.was_taken(); }

      unary_call& call_;
      method_service& service_;
      int method_;
      grpc::ServerCompletionQueue& queue_;
    };
    return awaiter{*this, service, method, queue};
  }

  /// Awaitable of bool: whether the answer went out to a caller that still wanted it. Once, last.
  [[nodiscard]] auto finish(const grpc::Status& status) noexcept {
    struct awaiter {
      bool await_ready() const noexcept { return false; }
      bool await_suspend(std::coroutine_handle<>) {
        void* const tag = call_.steps_.tag(call_steps::answered);
        if (status_.ok()) {
          call_.responder_.Finish(call_.reply, status_, tag);
        } else {
          call_.responder_.FinishWithError(status_, tag);
        }
        return call_.steps_.finishing();
      }
      bool await_resume() const noexcept {
        return call_.steps_.was_sent() && !call_.context_.IsCancelled();
      }

      unary_call& call_;
      const grpc::Status& status_;
    };
    return awaiter{*this, status};
  }

 private:
  grpc::ServerAsyncResponseWriter<Reply> responder_{&context_};
};

/// One call of a streaming kind, whichever: to gRPC each streams both ways.
class stream_call final : public cpp_context, public rpc::message_stream {
 public:
  stream_call(call_steps& steps, executor& workers)
      : cpp_context(steps), reading_(workers), writing_(workers) {}

  // For the handler.
  [[nodiscard]] rpc::step try_read(google::protobuf::MessageLite& into) override {
    if (no_more_) return rpc::step::over;
    if (!std::exchange(was_started_, false)) return rpc::step::wait;
    no_more_ = !reading_.ok();
    if (no_more_) return rpc::step::over;
    const bool good = message_traits::Deserialize(&received_, &into).ok();
    received_.Clear();
    if (good) return rpc::step::done;
    bad();
    no_more_ = true;
    return rpc::step::over;
  }
  [[nodiscard]] bool wait_to_read(coroutine_waiter& waiting) override {
    was_started_ = true;
    reading_.begin(waiting);
    stream_.Read(&received_, reading_.tag());
    return reading_.started();
  }
  /// gRPC's writes are over when its buffer, of 64 KiB, has room again.
  [[nodiscard]] rpc::step try_write(const google::protobuf::MessageLite&, bool) override {
    if (is_bad()) return rpc::step::over;
    if (!std::exchange(was_started_, false)) return rpc::step::wait;
    return writing_.ok() ? rpc::step::done : rpc::step::over;
  }
  [[nodiscard]] bool wait_to_write(const google::protobuf::MessageLite& from, bool compressed,
                                   coroutine_waiter& waiting) override {
    grpc::ByteBuffer bytes = pack(from);
    was_started_ = true;
    begun_ = true;
    writing_.begin(waiting);
    stream_.Write(bytes, options_of(compressed), writing_.tag());
    return writing_.started();
  }
  /// Goes with the status.
  void write_last(const google::protobuf::MessageLite& from) {
    last_ = pack(from);
    has_last_ = true;
  }

  /// As unary_call's.
  [[nodiscard]] auto accept(method_service& service, int method,
                            grpc::ServerCompletionQueue& queue) noexcept {
    struct awaiter {
      bool await_ready() const noexcept { return false; }
      bool await_suspend(std::coroutine_handle<> handle) {
        call_.steps_.begin(handle);
        service_.request(method_, call_.context_, call_.stream_, queue_,
                         call_.steps_.tag(call_steps::accepted));
        return call_.steps_.armed();
      }
      bool await_resume() const noexcept { return call_.steps_.was_taken(); }

      stream_call& call_;
      method_service& service_;
      int method_;
      grpc::ServerCompletionQueue& queue_;
    };
    return awaiter{*this, service, method, queue};
  }
  [[nodiscard]] auto finish(const grpc::Status& status) noexcept {
    struct awaiter {
      bool await_ready() const noexcept { return false; }
      bool await_suspend(std::coroutine_handle<>) {
        void* const tag = call_.steps_.tag(call_steps::answered);
        if (call_.has_last_ && status_.ok()) {
          call_.stream_.WriteAndFinish(call_.last_, grpc::WriteOptions(), status_, tag);
        } else {
          call_.stream_.Finish(status_, tag);
        }
        return call_.steps_.finishing();
      }
      bool await_resume() const noexcept {
        return call_.steps_.was_sent() && !call_.context_.IsCancelled();
      }

      stream_call& call_;
      const grpc::Status& status_;
    };
    return awaiter{*this, status};
  }

 private:
  using message_traits = grpc::SerializationTraits<google::protobuf::MessageLite>;

  static grpc::ByteBuffer pack(const google::protobuf::MessageLite& from) {
    grpc::ByteBuffer bytes;
    bool own = false;
    (void)message_traits::Serialize(from, &bytes, &own);
    return bytes;
  }
  static grpc::WriteOptions options_of(bool compressed) {
    grpc::WriteOptions options;
    if (!compressed) options.set_no_compression();
    return options;
  }

  byte_stream stream_{&context_};
  call_operation reading_;
  call_operation writing_;
  grpc::ByteBuffer received_;
  grpc::ByteBuffer last_;
  bool has_last_ = false;
  bool was_started_ = false;  // a read or a write, whose result nobody has looked at
  bool no_more_ = false;
};

}  // namespace bwos::server
