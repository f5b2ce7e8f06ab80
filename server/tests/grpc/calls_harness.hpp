// SPDX-License-Identifier: Apache-2.0
// A peer without its socket: a server's whole gRPC side, one connection of it, one thread.
#pragma once

#include <google/protobuf/stubs/logging.h>
#include <helloworld.pb.h>
#include <test_service.pb.h>
#include <work.pb.h>

#include <atomic>
#include <chrono>
#include <coroutine>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "app/services.hpp"
#include "grpc/calls.hpp"
#include "tests/http/h2/frames.hpp"

namespace bwos::server::rpc::test {

using namespace std::chrono_literals;

/// Handlers wait here until somebody opens it; each goes on on that thread.
class gate {
 public:
  static gate& instance() {
    static gate one;
    return one;
  }
  gate() = default;
  gate(const gate&) = delete;
  gate& operator=(const gate&) = delete;

  [[nodiscard]] auto pass() noexcept {
    struct awaiter {
      bool await_ready() const noexcept { return false; }
      void await_suspend(std::coroutine_handle<> waiting) { at.waiting_.push_back(waiting); }
      void await_resume() const noexcept {}
      gate& at;
    };
    return awaiter{*this};
  }
  void open() {
    for (const auto each : std::exchange(waiting_, {})) each.resume();
  }
  [[nodiscard]] std::size_t waiting() const noexcept { return waiting_.size(); }

  int cancelled = 0;  // of those that went on: seen by the handler

 private:
  std::vector<std::coroutine_handle<>> waiting_;
};

inline task<rpc::status> wait(rpc::context& call, const helloworld::HelloRequest& request,
                              helloworld::HelloReply& reply) {
  co_await gate::instance().pass();
  if (call.is_cancelled()) ++gate::instance().cancelled;
  reply.set_message("waited " + request.name());
  co_return rpc::status{};
}

inline task<rpc::status> throws(rpc::context&, const helloworld::HelloRequest&,
                                helloworld::HelloReply&) {
  throw std::runtime_error("not for callers");
  co_return rpc::status{};
}

inline task<rpc::status> refuses(rpc::context&, const helloworld::HelloRequest& request,
                                 helloworld::HelloReply&) {
  co_return rpc::status{rpc::code::not_found, request.name()};
}

/// Answers with what it got under the name that it is given, comma between.
inline task<rpc::status> metadata(rpc::context& call, const helloworld::HelloRequest& request,
                                  helloworld::HelloReply& reply) {
  for (const std::string& each : call.metadata(request.name())) {
    reply.mutable_message()->append(each).append("|");
  }
  co_return rpc::status{};
}

/// As large as its name says.
inline task<rpc::status> large(rpc::context&, const helloworld::HelloRequest& request,
                               helloworld::HelloReply& reply) {
  reply.set_message(std::string(std::stoul(request.name()), 'x'));
  co_return rpc::status{};
}

/// Runs nothing by itself: what is posted waits for run().
class list_executor final : public executor {
 public:
  void post(continuation& work) noexcept override { posted_.push_back(&work); }
  void yield(continuation& work) noexcept override { posted_.push_back(&work); }
  void post_long(continuation& work, lane_entry&) noexcept override {
    posted_.push_back(&work);
    ++posted_long;
  }
  [[nodiscard]] bool has_idle() const noexcept override { return somebody_is_idle; }
  void run(continuation::disposition how = continuation::disposition::run) {
    for (continuation* const each : std::exchange(posted_, {})) each->invoke(*each, how);
  }
  [[nodiscard]] std::size_t posted() const noexcept { return posted_.size(); }

  bool somebody_is_idle = false;
  int posted_long = 0;

 private:
  std::vector<continuation*> posted_;
};

class calls_harness {
 public:
  using clock = std::chrono::steady_clock;

  explicit calls_harness(const h2::limits& http2 = {}, const call_limits& calls = {},
                         std::uint64_t work_us_max = 10'000,
                         std::size_t memory_max = memory_budget::unlimited)
      : memory(memory_max),
        http2_(http2),
        calls_(calls),
        served_(methods_, calls_),
        common_{executor_, draining, registry, http2_, leaving, memory, &served_},
        now(clock::now()),
        tested(common_, {}, now) {
    google::protobuf::SetLogHandler(nullptr);  // of requests that are no UTF-8
    add_services(methods_, {.work_us_max = work_us_max, .has_test_service = true});
    methods_.unary("/test/Wait", &wait);
    methods_.unary("/test/Throw", &throws);
    methods_.unary("/test/Refuse", &refuses);
    methods_.unary("/test/Metadata", &metadata);
    methods_.unary("/test/Large", &large);
  }
  ~calls_harness() {
    tested.lost();
    executor_.run();
    gate::instance().open();
    tested.bury();
    EXPECT_FALSE(tested.has_running());
    gate::instance().cancelled = 0;
  }

  /// Feeds and pulls; returns the new frames.
  std::vector<read_frame> feed(std::string_view bytes) {
    tested.feed(std::as_bytes(std::span(bytes)), now);
    return pull();
  }
  std::vector<read_frame> look() {
    tested.look(now);
    return pull();
  }
  /// In as many turns as it takes.
  std::vector<read_frame> pull() {
    std::string bytes;
    for (bool more = true; more;) {  // ends: with nothing to send, and nothing left
      byte_buffer output;
      more = tested.pull(output);
      bytes += output.view();
      if (more || !tested.has_left() || in_one_turn) continue;
      tested.look(now);
      more = true;
    }
    std::vector<read_frame> fresh = reader_.read(bytes);
    all.insert(all.end(), fresh.begin(), fresh.end());
    return fresh;
  }
  /// With which a connection begins.
  std::vector<read_frame> begin(const std::string& peer_settings = "") {
    return feed(preface + frame(settings, none, 0, peer_settings) + frame(settings, ack, 0, ""));
  }
  /// What the peer may send yet: on a stream (that got no SETTINGS since) and on the connection.
  [[nodiscard]] std::int64_t window(std::uint32_t stream, std::int64_t sent) const {
    std::int64_t left = (stream == 0 ? 65535 : h2::stream_window) - sent;
    for (const read_frame& each : all) {
      if (each.type != window_update || each.stream != stream) continue;
      std::int64_t more = 0;
      for (const char byte : each.payload) more = more << 8 | static_cast<std::uint8_t>(byte);
      left += more;
    }
    return left;
  }
  [[nodiscard]] const h2::common& of() const noexcept { return common_; }
  /// What was posted to the workers.
  void run_posted() { executor_.run(); }
  [[nodiscard]] list_executor& workers() noexcept { return executor_; }
  [[nodiscard]] method_table& methods() noexcept { return methods_; }
  [[nodiscard]] answer answer_to(std::uint32_t stream) const { return answers_in(all)[stream]; }
  [[nodiscard]] std::uint64_t counted(metrics::grpc what) const {
    const auto which = static_cast<std::size_t>(what);
    return registry.total().grpc[which] - before_.grpc[which];
  }

  drain_state draining;
  metrics::registry& registry = one_registry();
  std::atomic<bool> leaving{false};
  memory_budget memory;
  bool in_one_turn = false;  ///< What a turn leaves waits for look().
  std::vector<read_frame> all;

 private:
  /// It takes milliseconds to make.
  static metrics::registry& one_registry() {
    static metrics::registry one({.routes = 1, .statuses = status_count});
    return one;
  }

  const metrics::totals before_ = registry.total();
  const h2::limits http2_;
  const call_limits calls_;
  list_executor executor_;
  method_table methods_;
  const served_methods served_;
  const h2::common common_;
  frame_reader reader_;

 public:
  clock::time_point now;
  h2::endpoint tested;
};

}  // namespace bwos::server::rpc::test
