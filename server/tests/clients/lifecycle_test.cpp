// SPDX-License-Identifier: Apache-2.0
// Start, drain and stop of the gRPC server: addresses, health, and that a stop loses nothing.
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <mutex>
#include <stdexcept>
#include <string>
#include <system_error>
#include <vector>

#include "baselines/grpc_cpp/goaway.hpp"
#include "running_server.hpp"

namespace bwos::server::test {
namespace {

constexpr auto serving = "\x08\x01";
constexpr auto not_serving = "\x08\x02";

std::chrono::steady_clock::time_point from_now(std::chrono::milliseconds time) {
  return std::chrono::steady_clock::now() + time;
}

TEST(grpc_start, port_zero_is_replaced_by_the_port_bound) {
  running_server running;
  const std::string address = running.server->address();
  EXPECT_EQ(address.rfind("127.0.0.1:", 0), 0U) << address;
  EXPECT_NE(address, "127.0.0.1:0");
}

TEST(grpc_start, the_ipv6_wildcard_serves_both_families) {
  grpc_options settings = any_port();
  settings.address = "[::]:0";
  running_server running(settings);
  const std::string address = running.server->address();
  ASSERT_EQ(address.rfind("[::]:", 0), 0U) << address;
  const std::string port = address.substr(5);
  ASSERT_NE(port, "0");
  const auto channel = grpc::CreateChannel("127.0.0.1:" + port, grpc::InsecureChannelCredentials());
  EXPECT_EQ(say_hello(*channel, "v4").second, "Hello v4");
}

TEST(grpc_start, an_address_in_use_is_reported_as_such) {
  running_server running;
  grpc_options same = any_port();
  same.address = running.server->address();
  try {
    (void)make_grpc_cpp_server(running.executor, same, {});
    FAIL() << "two servers on " << same.address;
  } catch (const std::system_error& error) {
    EXPECT_EQ(error.code(), std::errc::address_in_use);
    EXPECT_NE(std::string(error.what()).find(same.address), std::string::npos) << error.what();
  }
  EXPECT_TRUE(say_hello(*running.connect(), "first").first.ok());
}

TEST(grpc_start, a_port_shared_by_reuseport_is_in_use_too) {
  const int holder = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int on = 1;
  sockaddr_in name{};
  name.sin_family = AF_INET;
  name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof name;
  auto* const generic = reinterpret_cast<sockaddr*>(&name);
  ASSERT_EQ(::setsockopt(holder, SOL_SOCKET, SO_REUSEPORT, &on, sizeof on), 0);
  ASSERT_EQ(::bind(holder, generic, length), 0);
  ASSERT_EQ(::listen(holder, 1), 0);
  ASSERT_EQ(::getsockname(holder, generic, &length), 0);
  grpc_options settings = any_port();
  settings.address = "127.0.0.1:" + std::to_string(ntohs(name.sin_port));
  pool workers(pool_options(1));
  pool_executor on_workers(workers);
  EXPECT_THROW((void)make_grpc_cpp_server(on_workers, settings, {}), std::system_error);
  ::close(holder);
  EXPECT_NO_THROW((void)make_grpc_cpp_server(on_workers, settings, {}));
}

TEST(grpc_start, an_address_of_another_machine_is_reported) {
  grpc_options settings = any_port();
  settings.address = "192.0.2.1:0";
  pool workers(pool_options(1));
  pool_executor on_workers(workers);
  try {
    (void)make_grpc_cpp_server(on_workers, settings, {});
    FAIL();
  } catch (const std::system_error& error) {
    EXPECT_EQ(error.code(), std::errc::address_not_available);
  }
}

TEST(grpc_start, bad_values_are_named) {
  pool workers(pool_options(1));
  pool_executor on_workers(workers);
  const auto message_of = [&](auto change) -> std::string {
    grpc_options settings = any_port();
    change(settings);
    try {
      (void)make_grpc_cpp_server(on_workers, settings, {});
    } catch (const std::invalid_argument& error) {
      return error.what();
    }
    return "accepted";
  };
  for (const char* address :
       {"", ":", "127.0.0.1", "127.0.0.1:", ":50051", "127.0.0.1:65536", "127.0.0.1:-1",
        "127.0.0.1:http", "::1:50051", "[::1]", "[]:1", "127.0.0.1:1x", "no.such.invalid:1"}) {
    const std::string message =
        message_of([&](grpc_options& settings) { settings.address = address; });
    const std::string quoted = std::string("'").append(address).append("'");
    EXPECT_NE(message.find(quoted), std::string::npos) << message;
  }
  EXPECT_EQ(message_of([](grpc_options& settings) { settings.calls_armed = 0; }),
            "calls_armed = 0 is out of range: 1 to 65536");
  EXPECT_EQ(message_of([](grpc_options& settings) { settings.queue_threads = 65; }),
            "queue_threads = 65 is out of range: 1 to 64");
  EXPECT_EQ(message_of([](grpc_options& settings) { settings.message_bytes_max = 0; }),
            "message_bytes_max = 0 is out of range: 1 to 1073741824");
  EXPECT_EQ(message_of([](grpc_options& settings) { settings.streams_max = 0; }),
            "streams_max = 0 is out of range: 1 to 65535");
}

TEST(grpc_drain, health_turns_to_not_serving_while_calls_are_served) {
  running_server running;
  const auto channel = running.connect();
  for (const char* service : {"", "helloworld.Greeter"}) {
    EXPECT_EQ(check_health(channel, service).second, serving) << service;
  }
  EXPECT_EQ(check_health(channel, "nobody.Knows").first.error_code(), grpc::StatusCode::NOT_FOUND);
  running.server->begin_drain();
  running.server->begin_drain();
  for (const char* service : {"", "helloworld.Greeter"}) {
    EXPECT_EQ(check_health(channel, service).second, not_serving) << service;
  }
  EXPECT_TRUE(say_hello(*channel, "still").first.ok());
}

TEST(grpc_drain, a_health_watch_is_told_and_does_not_hold_the_stop) {
  running_server running;
  raw_stream watch(running.connect(), "/grpc.health.v1.Health/Watch");
  std::string status;
  ASSERT_TRUE(watch.write(""));
  ASSERT_TRUE(watch.read(status));
  EXPECT_EQ(status, serving);
  running.server->begin_drain();
  ASSERT_TRUE(watch.read(status));
  EXPECT_EQ(status, not_serving);
  // Without a cancellation of foreign streams this takes the whole hour, and ctest ends it.
  running.server->shutdown(from_now(1h));
}

TEST(grpc_stop, calls_in_flight_are_answered) {
  running_server running(any_port(), 1);
  const auto channel = running.connect();
  say_first_hello(running, *channel);
  busy_worker busy(running.workers);
  std::vector<std::future<std::pair<grpc::Status, std::string>>> answers;
  for (int i = 0; i < 20; ++i) {
    answers.push_back(
        std::async(std::launch::async, [&] { return say_hello(*channel, "waiting"); }));
  }
  EXPECT_TRUE(running.eventually_waiting(20));
  auto stopped = std::async(std::launch::async, [&] { running.server->shutdown(from_now(1h)); });
  EXPECT_EQ(stopped.wait_for(200ms), std::future_status::timeout);
  busy.release();
  for (auto& answer : answers) {
    const auto [status, text] = answer.get();
    EXPECT_EQ(text, "Hello waiting") << status.error_code() << " " << status.error_message();
  }
  stopped.get();
  const grpc_statistics calls = running.server->statistics();
  EXPECT_EQ(calls.started, 21U);
  EXPECT_EQ(calls.ok, 21U);
}

TEST(grpc_stop, calls_on_their_way_are_answered_and_those_after_find_nobody) {
  if (!goaways_can_be_sent()) GTEST_SKIP() << "this gRPC cancels what is on its way";
  running_server running;
  std::atomic<unsigned> answered{0};
  std::mutex lock;
  std::vector<std::string> failures;
  std::vector<std::thread> callers;
  for (int i = 0; i < 8; ++i) {
    callers.emplace_back([&] {
      const auto channel = running.connect();
      for (;;) {  // ends when nobody listens any more
        grpc::ClientContext context;
        const grpc::Status status = say_hello(*channel, "again", context).first;
        if (status.ok()) {
          ++answered;
          continue;
        }
        if (status.error_code() == grpc::StatusCode::UNAVAILABLE) return;
        const std::lock_guard guard(lock);
        failures.push_back(status.error_message());
        return;
      }
    });
  }
  EXPECT_TRUE(eventually([&] { return answered > 200; }));
  running.server->shutdown(from_now(1h));
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(failures, std::vector<std::string>());
  const grpc_statistics calls = running.server->statistics();
  EXPECT_EQ(calls.started, answered);
  EXPECT_EQ(calls.ok, answered);
}

TEST(grpc_stop, calls_beyond_the_deadline_are_cancelled) {
  running_server running(any_port(), 1);
  const auto channel = running.connect();
  say_first_hello(running, *channel);
  busy_worker busy(running.workers);
  auto answer = std::async(std::launch::async, [&] { return say_hello(*channel, "waiting"); });
  EXPECT_TRUE(running.eventually_waiting(1));
  auto stopped = std::async(std::launch::async, [&] { running.server->shutdown(from_now(50ms)); });
  EXPECT_FALSE(answer.get().first.ok());  // Though no worker is free.
  busy.release();
  stopped.get();
  EXPECT_EQ(running.server->statistics().started, 2U);
  EXPECT_EQ(running.server->statistics().cancelled, 1U);
}

TEST(grpc_stop, under_load_every_call_that_started_is_answered) {
  for (int round = 0; round < 5; ++round) {
    running_server running;
    std::atomic<std::uint64_t> answered{0};
    std::atomic<std::uint64_t> wrong{0};
    std::vector<std::thread> clients;
    for (int i = 0; i < 8; ++i) {
      clients.emplace_back([&, channel = running.connect()] {
        for (;;) {
          grpc::ClientContext context;
          const auto [status, message] = say_hello(*channel, "load", context);
          if (!status.ok()) break;
          answered += 1;
          if (message != "Hello load") wrong += 1;
        }
      });
    }
    EXPECT_TRUE(eventually([&] { return answered > 500; }));
    running.server->shutdown(from_now(1h));
    for (std::thread& client : clients) client.join();
    const grpc_statistics calls = running.server->statistics();
    EXPECT_EQ(calls.started, calls.ok);
    EXPECT_EQ(answered, calls.ok);
    EXPECT_EQ(wrong, 0U);
  }
}

TEST(grpc_stop, a_second_stop_does_nothing_and_the_port_is_free) {
  pool workers(pool_options(1));
  pool_executor on_workers(workers);
  grpc_options settings = any_port();
  const auto first = make_grpc_cpp_server(on_workers, settings, {});
  settings.address = first->address();
  first->shutdown(from_now(1s));
  first->shutdown(from_now(1s));
  EXPECT_NO_THROW((void)make_grpc_cpp_server(on_workers, settings, {}));
}

}  // namespace
}  // namespace bwos::server::test
