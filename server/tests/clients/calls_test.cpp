// SPDX-License-Identifier: Apache-2.0
// SayHello as a client of gRPC C++ sees it: answers, limits, deadlines, cancellation.
#include <gtest/gtest.h>

#include <deque>
#include <string>
#include <vector>

#include "running_server.hpp"

namespace bwos::server::test {
namespace {

/// `count` calls at once on each of `channels`; how many were answered with their own name.
unsigned say_hello_concurrently(const std::vector<std::shared_ptr<grpc::Channel>>& channels,
                                unsigned count) {
  struct pending {
    grpc::ClientContext context;
    helloworld::HelloReply reply;
    grpc::Status status;
    std::unique_ptr<grpc::ClientAsyncResponseReader<helloworld::HelloReply>> reader;
  };
  grpc::CompletionQueue queue;
  std::deque<pending> calls(channels.size() * count);
  for (std::size_t i = 0; i < calls.size(); ++i) {
    helloworld::HelloRequest request;
    request.set_name(std::to_string(i));
    const auto stub = helloworld::Greeter::NewStub(channels[i % channels.size()]);
    calls[i].context.set_wait_for_ready(true);
    calls[i].reader = stub->AsyncSayHello(&calls[i].context, request, &queue);
    calls[i].reader->Finish(&calls[i].reply, &calls[i].status, &calls[i]);
  }
  void* tag = nullptr;
  bool ok = false;
  for (std::size_t i = 0; i < calls.size(); ++i) queue.Next(&tag, &ok);
  queue.Shutdown();
  while (queue.Next(&tag, &ok)) {
  }
  unsigned answered = 0;
  for (std::size_t i = 0; i < calls.size(); ++i) {
    answered +=
        calls[i].status.ok() && calls[i].reply.message() == "Hello " + std::to_string(i) ? 1U : 0U;
  }
  return answered;
}

/// A health check is answered behind the cancellations on the same connection, which then are at
/// most a thread switch away from their calls.
void let_cancellations_arrive(const std::shared_ptr<grpc::Channel>& channel) {
  ASSERT_TRUE(check_health(channel, "").first.ok());
  std::this_thread::sleep_for(100ms);
}

TEST(grpc_calls, answers_hello_and_the_name) {
  running_server running;
  const auto channel = running.connect();
  for (const std::string name : {"world", "", "Zoë 世界", "a name longer than any small string"}) {
    const auto [status, message] = say_hello(*channel, name);
    EXPECT_TRUE(status.ok()) << status.error_message();
    EXPECT_EQ(message, "Hello " + name);
  }
  const grpc_statistics calls = running.server->statistics();
  EXPECT_EQ(calls.started, 4U);
  EXPECT_TRUE(eventually([&] { return running.server->statistics().ok == 4; }));
}

TEST(grpc_calls, a_thousand_at_once_are_all_answered) {
  running_server running;
  EXPECT_EQ(say_hello_concurrently({running.connect()}, 1000), 1000U);
  EXPECT_TRUE(eventually([&] { return running.server->statistics().ok == 1000; }));
  EXPECT_EQ(running.server->statistics().cancelled, 0U);
}

TEST(grpc_calls, more_at_once_than_are_armed_are_all_answered) {
  grpc_options settings = any_port();
  settings.calls_armed = 2;
  settings.queue_threads = 2;
  running_server running(settings);
  EXPECT_EQ(say_hello_concurrently({running.connect(), running.connect(), running.connect()}, 200),
            600U);
}

TEST(grpc_calls, are_in_hand_as_many_as_each_queue_has_armed) {
  for (const unsigned queues : {1U, 2U}) {
    SCOPED_TRACE(queues);
    grpc_options settings = any_port();
    settings.calls_armed = 2;
    settings.queue_threads = queues;
    running_server running(settings, 1);
    const auto channel = running.connect();
    say_first_hello(running, *channel);
    busy_worker busy(running.workers);
    auto answered =
        std::async(std::launch::async, [&] { return say_hello_concurrently({channel}, 16); });
    EXPECT_TRUE(running.eventually_waiting(2 * queues));
    std::this_thread::sleep_for(100ms);  // Time for the others to come, if anything let them.
    EXPECT_TRUE(running.eventually_waiting(2 * queues));
    busy.release();
    EXPECT_EQ(answered.get(), 16U);
  }
}

TEST(grpc_calls, a_connection_has_at_most_streams_max_calls_open) {
  grpc_options settings = any_port();
  settings.streams_max = 4;
  running_server running(settings, 1);
  const auto channel = running.connect();
  say_first_hello(running, *channel);  // The client knows the limit from here on.
  busy_worker busy(running.workers);
  auto answered =
      std::async(std::launch::async, [&] { return say_hello_concurrently({channel}, 16); });
  EXPECT_TRUE(running.eventually_waiting(4));
  std::this_thread::sleep_for(100ms);  // Time for the others to come, if anything let them.
  EXPECT_TRUE(running.eventually_waiting(4));
  busy.release();
  EXPECT_EQ(answered.get(), 16U);
}

TEST(grpc_calls, an_expired_call_ends_without_a_worker_and_its_handler_is_not_run) {
  running_server running(any_port(), 1);
  const auto channel = running.connect();
  say_first_hello(running, *channel);
  busy_worker busy(running.workers);
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + 1s);
  auto answer =
      std::async(std::launch::async, [&] { return say_hello(*channel, "late", context); });
  EXPECT_TRUE(running.eventually_waiting(1));
  EXPECT_EQ(answer.get().first.error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
  let_cancellations_arrive(
      channel);  // The server's own deadline is a little later than the client's.
  busy.release();
  EXPECT_TRUE(eventually([&] { return running.server->statistics().cancelled == 1; }));
  const grpc_statistics calls = running.server->statistics();
  EXPECT_EQ(calls.started, 2U);
  EXPECT_EQ(calls.unserved, 1U);
  EXPECT_EQ(calls.ok, 1U);
}

TEST(grpc_calls, a_cancelled_call_is_dropped_and_its_handler_is_not_run) {
  running_server running(any_port(), 1);
  const auto channel = running.connect();
  say_first_hello(running, *channel);
  busy_worker busy(running.workers);
  grpc::ClientContext context;
  auto answer =
      std::async(std::launch::async, [&] { return say_hello(*channel, "never", context); });
  EXPECT_TRUE(running.eventually_waiting(1));
  context.TryCancel();
  EXPECT_EQ(answer.get().first.error_code(), grpc::StatusCode::CANCELLED);
  let_cancellations_arrive(channel);
  busy.release();
  EXPECT_TRUE(eventually([&] { return running.server->statistics().cancelled == 1; }));
  EXPECT_EQ(running.server->statistics().unserved, 1U);
  EXPECT_TRUE(say_hello(*channel, "next").first.ok());
}

TEST(grpc_calls, a_message_above_the_limit_is_refused_and_one_at_it_is_not) {
  grpc_options settings = any_port();
  settings.message_bytes_max = 64 * 1024;
  running_server running(settings);
  const auto channel = running.connect();
  const std::size_t overhead = 4;  // Tag and length of a name of this size.
  const std::string largest(settings.message_bytes_max - overhead, 'x');
  EXPECT_EQ(say_hello(*channel, largest).second.size(), largest.size() + 6);
  EXPECT_EQ(say_hello(*channel, largest + "x").first.error_code(),
            grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_TRUE(say_hello(*channel, "still here").first.ok());
}

TEST(grpc_calls, bytes_that_are_no_request_are_refused_without_a_line_in_the_log) {
  running_server running;
  const auto channel = running.connect();
  const std::string not_utf8 = "\x0a\x02\xff\xfe";
  const std::string cut_off = "\x0a\x7f";
  testing::internal::CaptureStderr();
  for (const std::string& bytes : {cut_off, not_utf8}) {
    EXPECT_FALSE(call_raw(channel, "/helloworld.Greeter/SayHello", bytes).first.ok());
  }
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  EXPECT_EQ(call_raw(channel, "/helloworld.Greeter/SayHello", "\x0a\x01x").second,
            "\x0a\x07Hello x");
}

TEST(grpc_calls, unknown_methods_are_unimplemented) {
  running_server running;
  const auto channel = running.connect();
  for (const char* method : {"/helloworld.Greeter/SayGoodbye", "/nobody.Knows/Me"}) {
    EXPECT_EQ(call_raw(channel, method, "").first.error_code(), grpc::StatusCode::UNIMPLEMENTED)
        << method;
  }
  EXPECT_EQ(running.server->statistics().started, 0U);
}

}  // namespace
}  // namespace bwos::server::test
