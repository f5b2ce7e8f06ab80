// SPDX-License-Identifier: Apache-2.0
// Methods on gRPC C++: how many calls of each are armed, and the coroutines that serve them.
#pragma once

#include <grpcpp/grpcpp.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/throw_log.hpp"
#include "baselines/grpc_cpp/call.hpp"
#include "grpc/handlers.hpp"
#include "grpc/status_message.hpp"
#include "net/executor.hpp"

namespace bwos::server {

/// Written by all workers; one call touches two of them, beside some 10 us of gRPC.
struct call_counters {
  std::atomic<std::uint64_t> started{0};
  std::atomic<std::uint64_t> ok{0};
  std::atomic<std::uint64_t> failed{0};
  std::atomic<std::uint64_t> cancelled{0};
  std::atomic<std::uint64_t> unserved{0};

  // [calls.count] relaxed: a sum that only grows, for people to read. The stop concludes from two
  // that no call is left, which a sum that lags can only put off: it looks again a grace later.
  // Partner: [calls.read].
  static void add(std::atomic<std::uint64_t>& counter) noexcept {
    counter.fetch_add(1, std::memory_order_relaxed);
  }
  // [calls.read] relaxed: publishes nothing but itself. Partner: [calls.count].
  static std::uint64_t read(const std::atomic<std::uint64_t>& counter) noexcept {
    return counter.load(std::memory_order_relaxed);
  }
  [[nodiscard]] std::uint64_t ended() const noexcept {
    return read(ok) + read(failed) + read(cancelled);
  }
};

/// Counts coroutines that have not ended. A mutex, because the waiter may free it as soon as the
/// last one is out.
class live_count {
 public:
  void enter() {
    const std::lock_guard lock(mutex_);
    ++count_;
  }
  void leave() {
    const std::lock_guard lock(mutex_);
    if (--count_ == 0) none_left_.notify_all();
  }
  void wait_for_none() {
    std::unique_lock lock(mutex_);
    none_left_.wait(lock, [this] { return count_ == 0; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable none_left_;
  std::size_t count_ = 0;
};

namespace detail {

inline grpc::Status status_of(const rpc::status& result) {
  return {static_cast<grpc::StatusCode>(result.what), std::string(rpc::shortened(result.message))};
}

inline grpc::Status no_worker_in_time() {
  return {grpc::StatusCode::DEADLINE_EXCEEDED, "no worker was free before the deadline"};
}

/// How a handler of each kind is run.
template <class Request, class Reply>
task<rpc::status> run(unary_call<Request, Reply>& call,
                      const rpc::unary_handler<Request, Reply>& handler) {
  return handler(call, call.request, call.reply);
}

template <class Request, class Reply>
task<rpc::status> run(stream_call& call,
                      const rpc::server_stream_handler<Request, Reply>& handler) {
  Request request;
  if (!co_await rpc::reader<Request>(call).read(request)) {
    co_return call.is_bad() ? rpc::not_readable() : rpc::no_message();
  }
  rpc::writer<Reply> replies(call);
  co_return co_await handler(call, request, replies);
}

template <class Request, class Reply>
task<rpc::status> run(stream_call& call,
                      const rpc::client_stream_handler<Request, Reply>& handler) {
  rpc::reader<Request> requests(call);
  Reply reply;
  rpc::status result = co_await handler(call, requests, reply);
  if (call.is_bad()) co_return rpc::not_readable();
  if (result.ok()) call.write_last(reply);
  co_return result;
}

template <class Request, class Reply>
task<rpc::status> run(stream_call& call, const rpc::both_stream_handler<Request, Reply>& handler) {
  rpc::reader<Request> requests(call);
  rpc::writer<Reply> replies(call);
  rpc::status result = co_await handler(call, requests, replies);
  co_return call.is_bad() ? rpc::not_readable() : result;
}

/// Serves one call after the other until the server stops. The messages are made anew for each, so
/// that an armed call does not keep the largest request it has ever seen.
template <class Call, class Handler>
call_loop serve(executor& workers, call_counters& count, live_count& live, method_service& methods,
                int method, const char* path, const Handler& handler,
                grpc::ServerCompletionQueue& queue) {
  call_steps steps(workers);
  live.enter();
  for (;;) {
    Call call(steps, workers);
    if (!co_await call.accept(methods, method, queue)) break;
    call_counters::add(count.started);
    if (call.is_cancelled() || call.past_deadline()) {
      if (!call.is_cancelled()) co_await call.finish(no_worker_in_time());
      call_counters::add(count.unserved);
      call_counters::add(count.cancelled);
      continue;
    }
    rpc::status result;
    try {
      result = co_await run(call, handler);
    } catch (...) {
      log_thrown(path);
      result = rpc::handler_threw();
    }
    const grpc::Status status = status_of(result);
    const bool taken = co_await call.finish(status);
    call_counters::add(!taken ? count.cancelled : status.ok() ? count.ok : count.failed);
  }
  live.leave();
}

}  // namespace detail

/// The methods of one server: filled before it is made, which they outlive.
class cpp_methods : public rpc::method_adder<cpp_methods> {
 public:
  explicit cpp_methods(executor& where) noexcept : workers(where) {}

  executor& workers;
  call_counters count;
  live_count live;
  call_counters lasting_count;  ///< Of the methods that rpc::is_lasting().
  live_count lasting;
  method_service service;
  /// Each arms one call of a method.
  std::vector<std::function<void(grpc::ServerCompletionQueue&)>> arms;

 private:
  friend class rpc::method_adder<cpp_methods>;

  template <class Request, class Reply>
  void unary_(std::string_view path, rpc::unary_handler<Request, Reply> handler,
              const rpc::method_options& /*options*/) {
    const char* const name = paths_.emplace_back(path).c_str();
    arms.push_back([this, name, method = service.add(name, false),
                    made = std::move(handler)](grpc::ServerCompletionQueue& queue) {
      detail::serve<unary_call<Request, Reply>>(workers, count, live, service, method, name, made,
                                                queue);
    });
  }
  template <class Request, class Reply>
  void server_stream_(std::string_view path, rpc::server_stream_handler<Request, Reply> handler,
                      const rpc::method_options& /*options*/) {
    add_streams(path, std::move(handler));
  }
  template <class Request, class Reply>
  void client_stream_(std::string_view path, rpc::client_stream_handler<Request, Reply> handler,
                      const rpc::method_options& /*options*/) {
    add_streams(path, std::move(handler));
  }
  template <class Request, class Reply>
  void both_streams_(std::string_view path, rpc::both_stream_handler<Request, Reply> handler,
                     const rpc::method_options& /*options*/) {
    add_streams(path, std::move(handler));
  }
  template <class Handler>
  void add_streams(std::string_view path, Handler handler) {
    const char* const name = paths_.emplace_back(path).c_str();
    const bool lasts = rpc::is_lasting(path);
    arms.push_back([this, &counted = lasts ? lasting_count : count, &its = lasts ? lasting : live,
                    name, method = service.add(name, true),
                    made = std::move(handler)](grpc::ServerCompletionQueue& queue) {
      detail::serve<stream_call>(workers, counted, its, service, method, name, made, queue);
    });
  }

  std::deque<std::string> paths_;
};

}  // namespace bwos::server
