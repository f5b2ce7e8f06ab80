// SPDX-License-Identifier: Apache-2.0
// Native gRPC as a client of gRPC C++ sees it, on each executor that has it: answers, limits,
// cancellation, and that a stop loses no call.
#include <gtest/gtest.h>

#include <atomic>
#include <bwos/waiter.hpp>
#include <deque>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "app/baselines.hpp"
#include "grpc/native_server.hpp"
#include "running_server.hpp"
#include "tests/net/unlimited_memory.hpp"
#include "work.grpc.pb.h"

namespace bwos::server::test {
namespace {

struct native_server {
  explicit native_server(executor_kind kind, const rpc::call_limits& calls = {},
                         std::size_t connections_max = 1000)
      : limits(calls) {
    settings.executor = kind;
    settings.workers = 2;
    threads = make_runtime(settings);
    server = std::make_unique<rpc::native_server>(*threads, "127.0.0.1:0", 1024, connections_max,
                                                  methods_of(services), drain, registry,
                                                  settings.http2, limits, test::unlimited_memory());
  }
  ~native_server() { threads->stop(); }
  native_server(const native_server&) = delete;
  native_server& operator=(const native_server&) = delete;

  [[nodiscard]] std::shared_ptr<grpc::Channel> connect() const {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    arguments.SetMaxReceiveMessageSize(-1);
    return grpc::CreateCustomChannel(server->address(), grpc::InsecureChannelCredentials(),
                                     arguments);
  }
  void stop() { server->shutdown(std::chrono::steady_clock::now() + 20s); }

  config settings;
  rpc::call_limits limits;
  demo_services services;
  drain_state drain;
  metrics::registry registry{{.routes = 1, .statuses = status_count}};
  std::unique_ptr<runtime> threads;
  std::unique_ptr<rpc::native_server> server;
};

class grpc_native : public testing::TestWithParam<executor_kind> {};

std::string name_of_case(const testing::TestParamInfo<executor_kind>& info) {
  return info.param == executor_kind::bwos ? "bwos" : "asio_pool";
}
INSTANTIATE_TEST_SUITE_P(on, grpc_native,
                         testing::Values(executor_kind::bwos, executor_kind::asio_pool),
                         name_of_case);

TEST_P(grpc_native, answers_hello_and_the_name) {
  native_server running(GetParam());
  const auto channel = running.connect();
  for (const std::string& name : {std::string("world"), std::string(), std::string("Zoë 世界"),
                                  std::string(3'000'000, 'x')}) {
    const auto [status, message] = say_hello(*channel, name);
    EXPECT_TRUE(status.ok()) << status.error_message();
    EXPECT_EQ(message, "Hello " + name);
  }
  EXPECT_EQ(running.server->statistics().ok, 4U);
}

TEST_P(grpc_native, many_at_once_are_all_answered) {
  native_server running(GetParam());
  struct pending {
    grpc::ClientContext context;
    helloworld::HelloReply reply;
    grpc::Status status;
    std::unique_ptr<grpc::ClientAsyncResponseReader<helloworld::HelloReply>> reader;
  };
  const std::vector channels{running.connect(), running.connect(), running.connect()};
  grpc::CompletionQueue queue;
  std::deque<pending> calls(3000);
  for (std::size_t i = 0; i < calls.size(); ++i) {
    helloworld::HelloRequest request;
    request.set_name(std::to_string(i));
    calls[i].context.set_wait_for_ready(true);
    calls[i].reader = helloworld::Greeter::NewStub(channels[i % channels.size()])
                          ->AsyncSayHello(&calls[i].context, request, &queue);
    calls[i].reader->Finish(&calls[i].reply, &calls[i].status, &calls[i]);
  }
  void* tag = nullptr;
  bool ok = false;
  for (std::size_t i = 0; i < calls.size(); ++i) queue.Next(&tag, &ok);
  queue.Shutdown();
  while (queue.Next(&tag, &ok)) {
  }
  for (std::size_t i = 0; i < calls.size(); ++i) {
    ASSERT_EQ(calls[i].reply.message(), "Hello " + std::to_string(i))
        << calls[i].status.error_message();
  }
}

/// Above --connections-max a client is to come back after its backoff, not at once.
TEST_P(grpc_native, a_client_above_the_connections_waits_before_it_tries_again) {
  native_server running(GetParam(), {}, 1);
  const auto first = running.connect();
  EXPECT_TRUE(say_hello(*first, "first").first.ok());
  const auto second = running.connect();
  for (int i = 0; i < 20; ++i) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + 20s);
    ASSERT_EQ(say_hello(*second, "second", context).first.error_code(),
              grpc::StatusCode::UNAVAILABLE);
  }
  EXPECT_GE(running.server->refused(), 1U);
  EXPECT_LE(running.server->refused(), 10U);  // it does not take seconds
  EXPECT_TRUE(say_hello(*first, "still there").first.ok());
}

TEST_P(grpc_native, burn_answers_what_it_burned) {
  native_server running(GetParam());
  const auto stub = bwos::Work::NewStub(running.connect());
  grpc::ClientContext context;
  bwos::BurnRequest request;
  bwos::BurnReply reply;
  request.set_us(1'000'000);
  EXPECT_TRUE(stub->Burn(&context, request, &reply).ok());
  EXPECT_EQ(reply.us(), running.services.work_us_max);
}

TEST_P(grpc_native, what_is_wrong_gets_its_status_and_the_connection_goes_on) {
  native_server running(GetParam(), {.message_bytes_max = 64 * 1024});
  const auto channel = running.connect();
  EXPECT_EQ(call_raw(channel, "/nobody.Knows/Me", "").first.error_code(),
            grpc::StatusCode::UNIMPLEMENTED);
  EXPECT_EQ(call_raw(channel, "/helloworld.Greeter/SayHello", "\x0a\x7f").first.error_code(),
            grpc::StatusCode::INTERNAL);
  EXPECT_EQ(say_hello(*channel, std::string(64 * 1024, 'x')).first.error_code(),
            grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(say_hello(*channel, std::string(64 * 1024 - 4, 'x')).second.size(), 64U * 1024 + 2);
  EXPECT_EQ(check_health(channel, "bwos.Work").second, "\x08\x01");
  EXPECT_EQ(check_health(channel, "").second, "\x08\x01");
  EXPECT_EQ(check_health(channel, "nobody.Knows").first.error_code(), grpc::StatusCode::NOT_FOUND);
  running.drain.begin();
  EXPECT_EQ(check_health(channel, "bwos.Work").second, "\x08\x02");
}

TEST_P(grpc_native, compressed_requests_are_read) {
  native_server running(GetParam());
  const auto channel = running.connect();
  for (const auto algorithm : {GRPC_COMPRESS_GZIP, GRPC_COMPRESS_DEFLATE}) {
    grpc::ClientContext context;
    context.set_compression_algorithm(algorithm);
    const std::string name(10'000, 'x');
    const auto [status, message] = say_hello(*channel, name, context);
    EXPECT_EQ(message, "Hello " + name) << status.error_message();
  }
}

TEST_P(grpc_native, cancelled_calls_and_expired_ones_leave_the_others_alone) {
  native_server running(GetParam());
  running.services.work_us_max = 200'000;
  const auto channel = running.connect();
  std::vector<std::thread> callers;
  std::atomic<int> wrong{0};
  for (int i = 0; i < 4; ++i) {
    callers.emplace_back([&] {
      const auto stub = bwos::Work::NewStub(channel);
      for (int round = 0; round < 20; ++round) {
        grpc::ClientContext context;
        context.set_deadline(std::chrono::system_clock::now() + 2ms);
        bwos::BurnRequest request;
        bwos::BurnReply reply;
        request.set_us(3000);
        const grpc::Status status = stub->Burn(&context, request, &reply);
        if (!status.ok() && status.error_code() != grpc::StatusCode::DEADLINE_EXCEEDED) ++wrong;
        if (say_hello(*channel, "x").second != "Hello x") ++wrong;
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_TRUE(eventually([&] {
    const grpc_statistics calls = running.server->statistics();
    return calls.started == calls.ok + calls.failed + calls.cancelled;
  }));
}

/// Where handlers of the tests below go on.
executor* handlers_on = nullptr;

/// The coroutine goes on behind what is ready, posted by a thread of nobody's.
struct by_another_thread : coroutine_waiter {
  bool await_ready() const noexcept { return false; }
  template <class Promise>
  void await_suspend(std::coroutine_handle<Promise> waiting) {
    set(waiting);
    std::thread([this] { handlers_on->post(*this); }).detach();
  }
  void await_resume() const noexcept {}
};

task<rpc::status> suspends(rpc::context& call, const helloworld::HelloRequest& request,
                           helloworld::HelloReply& reply) {
  const bool far = request.name().size() % 3 == 0;
  for (int i = 0; i < 3 && !call.is_cancelled(); ++i) {
    if (far) {
      co_await by_another_thread();
    } else {
      co_await handlers_on->yield();
    }
  }
  reply.set_message("suspended " + request.name());
  co_return rpc::status{};
}

TEST_P(grpc_native, handlers_that_suspend_are_answered_whoever_resumes_them) {
  native_server running(GetParam());
  handlers_on = &running.threads->workers();
  rpc::method_table methods;
  methods.unary("/test/Suspend", &suspends);
  const std::atomic<bool> staying{false};
  const rpc::served_methods served(methods, running.limits);
  const h2::common shared{
      running.threads->workers(), running.drain, running.registry, running.settings.http2, staying,
      test::unlimited_memory(),   &served};
  const auto listener = running.threads->listen("127.0.0.1:0", 100);
  const h2::factory connections(shared);
  listener->start(connections, 100);
  std::atomic<int> wrong{0};
  std::vector<std::thread> callers;
  for (int i = 0; i < 6; ++i) {
    callers.emplace_back([&, i] {
      const auto channel =
          grpc::CreateCustomChannel(listener->address(), grpc::InsecureChannelCredentials(), [i] {
            grpc::ChannelArguments own;
            own.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, i % 2);  // half share a connection
            return own;
          }());
      grpc::GenericStub stub(channel);
      for (int round = 0; round < 100; ++round) {
        const std::string name(static_cast<std::size_t>(round % 7), 'n');
        helloworld::HelloRequest request;
        request.set_name(name);
        grpc::ClientContext context;
        if (round % 10 == 9) {
          context.set_deadline(std::chrono::system_clock::now() + 200us);
        } else {
          context.set_wait_for_ready(true);
        }
        grpc::CompletionQueue queue;
        const auto call = stub.PrepareUnaryCall(&context, "/test/Suspend",
                                                buffer_of(request.SerializeAsString()), &queue);
        call->StartCall();
        grpc::ByteBuffer answer;
        grpc::Status status;
        call->Finish(&answer, &status, nullptr);
        void* tag = nullptr;
        bool ok = false;
        queue.Next(&tag, &ok);
        queue.Shutdown();
        while (queue.Next(&tag, &ok)) {
        }
        helloworld::HelloReply reply;
        const bool good = status.ok() && reply.ParseFromString(bytes_of(answer)) &&
                          reply.message() == "suspended " + name;
        const bool late = round % 10 == 9 && !status.ok();
        if (!good && !late) ++wrong;
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(wrong, 0);
  listener->close();
  // Every handler ends, also those whose calls were given up, and every connection after its own.
  EXPECT_TRUE(eventually([&] { return listener->closed() && listener->connections() == 0; }));
  EXPECT_TRUE(eventually([&] {
    const grpc_statistics calls = running.server->statistics();
    return calls.started == calls.ok + calls.cancelled && calls.ok >= 540;
  }));
}

/// Reads and writes on whatever thread it has come to.
task<rpc::status> wanders(rpc::context&, rpc::reader<helloworld::HelloRequest>& requests,
                          rpc::writer<helloworld::HelloReply>& replies) {
  helloworld::HelloRequest request;
  helloworld::HelloReply reply;
  for (unsigned i = 0; co_await requests.read(request); ++i) {
    if (i % 5 == 1) co_await handlers_on->yield();
    if (i % 5 == 3) co_await by_another_thread();
    reply.set_message(request.name());
    if (!co_await replies.write(reply)) break;
    if (i % 7 == 2) co_await handlers_on->yield();
    if (!co_await replies.write(reply)) break;
  }
  co_return rpc::status{};
}

TEST_P(grpc_native, streams_whose_handlers_wander_lose_nothing_and_end) {
  native_server running(GetParam());
  handlers_on = &running.threads->workers();
  rpc::method_table methods;
  methods.both_streams("/test/Wander", &wanders);
  const std::atomic<bool> staying{false};
  const rpc::served_methods served(methods, running.limits);
  const h2::common shared{
      running.threads->workers(), running.drain, running.registry, running.settings.http2, staying,
      test::unlimited_memory(),   &served};
  const auto listener = running.threads->listen("127.0.0.1:0", 100);
  const h2::factory connections(shared);
  listener->start(connections, 100);
  std::atomic<int> wrong{0};
  std::vector<std::thread> callers;
  for (int i = 0; i < 6; ++i) {
    callers.emplace_back([&, i] {
      grpc::ChannelArguments own;
      own.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, i % 2);  // half share a connection
      const auto channel =
          grpc::CreateCustomChannel(listener->address(), grpc::InsecureChannelCredentials(), own);
      for (int round = 0; round < 30; ++round) {
        raw_stream stream(channel, "/test/Wander");  // which cancels it in the end
        const bool leaves = round % 3 == 2;
        for (int j = 0; j < (leaves ? 3 : 20); ++j) {
          helloworld::HelloRequest request;
          request.set_name(std::string(static_cast<std::size_t>(j * 997), 'n'));
          if (!stream.write(request.SerializeAsString())) ++wrong;
          if (leaves) continue;
          for (int k = 0; k < 2; ++k) {
            std::string answer;
            helloworld::HelloReply reply;
            if (!stream.read(answer) || !reply.ParseFromString(answer) ||
                reply.message() != request.name()) {
              ++wrong;
            }
          }
        }
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(wrong, 0);
  listener->close();
  EXPECT_TRUE(eventually([&] {
    const grpc_statistics calls = running.server->statistics();
    return calls.started == calls.ok + calls.failed + calls.cancelled;
  }));
  listener->interrupt_connections();
}

TEST_P(grpc_native, a_stop_under_load_loses_no_call) {
  for (int round = 0; round < 5; ++round) {
    native_server running(GetParam());
    std::atomic<std::uint64_t> answered{0};
    std::atomic<std::uint64_t> wrong{0};
    std::vector<std::thread> clients;
    for (int i = 0; i < 8; ++i) {
      clients.emplace_back([&, channel = running.connect()] {
        for (;;) {  // ends when nobody listens any more
          grpc::ClientContext context;
          const auto [status, message] = say_hello(*channel, "load", context);
          if (!status.ok()) {
            wrong += status.error_code() == grpc::StatusCode::UNAVAILABLE ? 0U : 1U;
            break;
          }
          answered += 1;
          if (message != "Hello load") wrong += 1;
        }
      });
    }
    EXPECT_TRUE(eventually([&] { return answered > 500; }));
    running.stop();
    for (std::thread& client : clients) client.join();
    EXPECT_EQ(running.server->connections(), 0U);
    const grpc_statistics calls = running.server->statistics();
    EXPECT_EQ(calls.started, calls.ok);
    EXPECT_EQ(calls.ok, answered);
    EXPECT_EQ(wrong, 0U);
  }
}

}  // namespace
}  // namespace bwos::server::test
