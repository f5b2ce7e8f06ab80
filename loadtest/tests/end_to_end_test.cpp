// SPDX-License-Identifier: Apache-2.0
// The generator against real peers, each in a process of its own, on loopback.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "generator.hpp"
#include "options.hpp"
#include "report.hpp"

namespace {

using namespace bwos::load;

// A peer that is ready; ended by SIGTERM.
class peer {
 public:
  explicit peer(std::vector<std::string> command) {
    int ends[2];
    if (::pipe(ends) != 0) throw std::runtime_error("pipe");
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    ::posix_spawn_file_actions_addclose(&actions, ends[0]);
    ::posix_spawn_file_actions_addclose(&actions, ends[1]);
    std::vector<char*> arguments;
    for (std::string& each : command) arguments.push_back(each.data());
    arguments.push_back(nullptr);
    const int error =
        ::posix_spawn(&pid_, arguments[0], &actions, nullptr, arguments.data(), environ);
    ::posix_spawn_file_actions_destroy(&actions);
    ::close(ends[1]);
    std::FILE* out = ::fdopen(ends[0], "r");
    unsigned port = 0;
    const bool ready =
        error == 0 && std::fscanf(out, "listening %*[a-z]=127.0.0.1:%u", &port) == 1 && port != 0;
    std::fclose(out);
    if (!ready) throw std::runtime_error("the peer did not start: " + command[0]);
    target_ = parse_target("127.0.0.1:" + std::to_string(port));
  }
  peer(const peer&) = delete;
  peer& operator=(const peer&) = delete;
  ~peer() { stop(); }

  void stop() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGTERM);
    ::waitpid(pid_, nullptr, 0);
    pid_ = 0;
  }

  const sockaddr_in& target() const { return target_; }

 private:
  pid_t pid_ = 0;
  sockaddr_in target_{};
};

options one_second(const sockaddr_in& target, const std::vector<std::string>& classes) {
  options with;
  with.target = target;
  with.duration_s = 1;
  with.warmup_s = 0.2;
  with.drain_s = 40;  // a slow machine must not turn late answers into missing ones
  for (const std::string& each : classes) with.classes.push_back(parse_class(each));
  return with;
}

void expect_all_accounted_for(const options& with, const outcome& found) {
  ASSERT_EQ(found.classes.size(), with.classes.size());
  for (std::size_t i = 0; i < found.classes.size(); ++i) {
    const class_outcome& its = found.classes[i];
    EXPECT_GT(its.sent, 0U);
    EXPECT_EQ(its.sent, its.answered + its.lost() + its.outstanding);
    EXPECT_EQ(its.outstanding, 0U);
    EXPECT_EQ(its.all_failures(), 0U) << as_table(with, found);
    EXPECT_EQ(its.latency_ns.count(), its.answered);
  }
  EXPECT_EQ(found.sent_in_all, found.answered_in_all);
  EXPECT_EQ(found.lateness_ns.count(), found.sent());
  EXPECT_GT(found.client_cpu_s, 0);
}

class with_peer : public testing::TestWithParam<const char*> {
 protected:
  // Those in Rust and Go are built on request only; the others this test depends on.
  void SetUp() override {
    if (::access(program().c_str(), X_OK) != 0) GTEST_SKIP() << program() << " is not built";
  }
  static std::string program() { return std::string(PEERS) + GetParam(); }
};

class end_to_end : public with_peer {};
INSTANTIATE_TEST_SUITE_P(peers, end_to_end,
                         testing::Values("epoll_floor", "asio_coro", "asio_pool", "tokio", "hyper",
                                         "go_http"),
                         [](const auto& of) { return std::string(of.param); });

TEST_P(end_to_end, every_request_of_every_class_is_answered) {
  const peer server({program(), "--threads", "2"});
  options with = one_second(server.target(),
                            {"name=fast,connections=20,path=/plaintext,rate=2000,length=13",
                             "name=slow,connections=2,path=/work?us=200,rate=200,length=13",
                             "name=echo,connections=5,path=/echo,rate=300,post=100,length=100"});
  with.threads = 2;
  expect_all_accounted_for(with, run(with));
}

TEST_P(end_to_end, a_large_echo_comes_back_whole) {
  const peer server({program()});
  const options with =
      one_second(server.target(), {"path=/echo,connections=3,rate=30,post=1000000,length=1000000"});
  expect_all_accounted_for(with, run(with));
}

TEST_P(end_to_end, fixed_arrivals_send_the_rate_asked_for) {
  const peer server({program()});
  options with = one_second(server.target(), {"connections=10,rate=1000,length=13"});
  with.arrivals = arrival_kind::fixed;
  const outcome found = run(with);
  expect_all_accounted_for(with, found);
  // Due times do not depend on the server: each connection's phase decides between 100 and 101.
  EXPECT_GE(found.sent(), 990U);
  EXPECT_LE(found.sent(), 1010U);
}

TEST_P(end_to_end, a_burst_is_due_at_once_and_counts_each_of_its_requests) {
  const peer server({program()});
  options with =
      one_second(server.target(), {"path=/work?us=1000,connections=1,rate=160,burst=16,length=13"});
  with.arrivals = arrival_kind::fixed;
  const outcome found = run(with);
  expect_all_accounted_for(with, found);
  // Ten bursts in the second, give or take the one at its edge.
  EXPECT_EQ(found.sent() % 16, 0U);
  EXPECT_GE(found.sent(), 144U);
  EXPECT_LE(found.sent(), 176U);
  // All 16 are due together: the last waits for the 15 before it.
  EXPECT_GT(found.classes[0].latency_ns.percentile(99), 15'000'000);
}

TEST_P(end_to_end, requests_leave_on_time_while_earlier_ones_wait) {
  const peer server({program()});
  // 250 requests of 10 ms on one connection in a second: the server does 100 of them in it.
  options with = one_second(server.target(), {"path=/work?us=10000,connections=1,rate=250"});
  with.warmup_s = 0;
  const outcome found = run(with);
  expect_all_accounted_for(with, found);
  EXPECT_GT(found.sent(), 180U);
  // Latency counts from the due time, so the queue shows: a closed loop would report 10 ms.
  EXPECT_GT(found.classes[0].latency_ns.percentile(99), 500'000'000);
}

TEST_P(end_to_end, wrong_status_and_wrong_length_are_errors_of_their_kind) {
  const peer server({program()});
  const options with = one_second(server.target(), {"path=/nowhere,connections=1,rate=100",
                                                    "path=/plaintext,rate=100,length=14"});
  const outcome found = run(with);
  EXPECT_GT(found.classes[0].answered, 0U);
  EXPECT_EQ(found.classes[0].failed(failure::status), found.classes[0].answered);
  EXPECT_EQ(found.classes[1].failed(failure::length), found.classes[1].answered);
  EXPECT_EQ(found.failures(), found.classes[0].answered + found.classes[1].answered);
}

TEST_P(end_to_end, requests_of_a_server_that_dies_are_lost_or_unsent) {
  peer server({program()});
  const options with = one_second(server.target(), {"path=/work?us=5000,connections=2,rate=500"});
  std::jthread killer([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(600));
    server.stop();
  });
  const outcome found = run(with);
  const class_outcome& its = found.classes[0];
  EXPECT_GT(its.lost(), 0U);
  EXPECT_GT(its.failed(failure::unsent), 0U);
  EXPECT_EQ(its.sent, its.answered + its.lost() + its.outstanding);
}

class grpc_end_to_end : public with_peer {};
INSTANTIATE_TEST_SUITE_P(peers, grpc_end_to_end,
                         testing::Values("h2_floor", "grpc_cq", "grpc_callback", "tonic",
                                         "grpc_go"),
                         [](const auto& of) { return std::string(of.param); });

// SayHello("bwos") is answered with "Hello bwos"; Burn(200) with 200.
const std::string hello =
    "protocol=grpc,path=/helloworld.Greeter/SayHello,message=0a0462776f73,"
    "reply=0a0a48656c6c6f2062776f73";
const std::string burn = "protocol=grpc,path=/bwos.Work/Burn,message=08c801,reply=08c801";

TEST_P(grpc_end_to_end, a_closed_loop_is_answered_whatever_its_shape) {
  const peer server({program(), "--threads", "2"});
  for (const char* shape : {"connections=1,streams=1", "connections=10,streams=100",
                            "connections=20,streams=1", "connections=1,streams=900"}) {
    options with = one_second(server.target(), {hello + "," + shape});
    with.duration_s = 0.3;
    with.threads = 2;
    with.spin = std::string_view(shape) == "connections=20,streams=1";
    const outcome found = run(with);
    const class_outcome& its = found.classes[0];
    EXPECT_GT(its.answered, 0U) << shape;
    EXPECT_EQ(its.sent, its.answered) << shape;
    EXPECT_EQ(found.sent_in_all, found.answered_in_all) << shape;
    EXPECT_EQ(its.latency_ns.count(), its.answered) << shape << as_table(with, found);
  }
}

TEST_P(grpc_end_to_end, two_classes_on_the_same_connections_in_an_open_loop) {
  const peer server({program(), "--threads", "2"});
  options with = one_second(server.target(), {"name=hello," + hello + ",connections=10,rate=900",
                                              "name=burn,over=hello," + burn + ",rate=100"});
  with.threads = 2;
  const outcome found = run(with);
  expect_all_accounted_for(with, found);
  EXPECT_GT(found.classes[1].latency_ns.percentile(50), 200'000);
}

TEST_P(grpc_end_to_end, a_burn_takes_as_long_as_it_says_and_is_capped) {
  const peer server({program()});
  // 1,000,000 us, of which 10,000 are burned.
  const options with = one_second(
      server.target(), {"protocol=grpc,path=/bwos.Work/Burn,message=08c0843d,reply=08904e"});
  const outcome found = run(with);
  EXPECT_GT(found.classes[0].answered, 0U);
  EXPECT_EQ(found.failures(), 0U);
  EXPECT_GE(found.classes[0].latency_ns.percentile(0), 9'990'000);
}

TEST_P(grpc_end_to_end, wrong_answers_are_errors_of_their_kind) {
  const peer server({program()});
  const options with =
      one_second(server.target(),
                 {"protocol=grpc,path=/helloworld.Greeter/Nothing,rate=100",
                  "protocol=grpc,path=/helloworld.Greeter/SayHello,rate=100,length=9",
                  "protocol=grpc,path=/helloworld.Greeter/SayHello,rate=100,reply=0a0648656c6c6f21",
                  "protocol=grpc,path=/helloworld.Greeter/SayHello,rate=100,message=ff"});
  const outcome found = run(with);
  const std::array<failure, 4> kinds{failure::grpc_status, failure::length, failure::body,
                                     failure::grpc_status};
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    EXPECT_GT(found.classes[i].answered, 0U);
    EXPECT_EQ(found.classes[i].failed(kinds[i]), found.classes[i].answered) << i;
    EXPECT_EQ(found.classes[i].all_failures(), found.classes[i].answered) << i;
  }
}

TEST_P(grpc_end_to_end, calls_of_a_server_that_dies_are_lost_or_unsent) {
  peer server({program()});
  options with =
      one_second(server.target(), {"name=open," + burn + ",connections=2,rate=500,window=1000",
                                   "name=closed," + burn + ",connections=2,streams=5"});
  with.duration_s = 3;  // time enough on a busy machine to be answered first
  std::jthread killer([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(2200));
    server.stop();
  });
  const outcome found = run(with);
  for (const class_outcome& its : found.classes) {
    EXPECT_GT(its.answered, 0U);
    EXPECT_GT(its.failed(failure::unsent), 0U);
    EXPECT_EQ(its.sent, its.answered + its.lost() + its.outstanding);
  }
  EXPECT_GT(found.classes[1].lost(), 0U);
}

TEST(load_generator, a_server_of_http1_is_no_server_of_http2) {
  const peer server({std::string(PEERS) + "epoll_floor"});
  const outcome found = run(one_second(server.target(), {hello + ",streams=3"}));
  EXPECT_EQ(found.classes[0].answered, 0U);
  EXPECT_EQ(found.classes[0].failed(failure::unsent), 3U);
}

TEST(load_generator, a_target_that_does_not_listen_is_an_error) {
  options with = one_second(parse_target("127.0.0.1:1"), {"connections=1"});
  EXPECT_THROW(run(with), std::system_error);
}

}  // namespace
