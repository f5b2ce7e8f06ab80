// SPDX-License-Identifier: Apache-2.0
// Handlers that throw, over real sockets: who asked is told so, on a connection that goes on.
#include <gtest/gtest.h>
#include <helloworld.pb.h>
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>

#include <atomic>
#include <memory>
#include <new>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "app/baselines.hpp"
#include "base/throw_log.hpp"
#include "grpc/calls.hpp"
#include "http/h1/connection.hpp"
#include "tcp_client.hpp"
#include "tests/http/demo_site.hpp"
#include "tests/http/h2/frames.hpp"
#include "tests/net/unlimited_memory.hpp"

namespace bwos::server::rpc::test {
namespace {

using bwos::test::tcp_client;

task<rpc::status> throws(rpc::context&, const helloworld::HelloRequest&, helloworld::HelloReply&) {
  throw std::runtime_error("not for callers");
  co_return rpc::status{};
}

/// What is logged while it is there.
class log_capture {
 public:
  log_capture() : before_(spdlog::default_logger()) {
    const auto sink = std::make_shared<spdlog::sinks::ostream_sink_mt>(written_);
    spdlog::set_default_logger(std::make_shared<spdlog::logger>("test", sink));
  }
  log_capture(const log_capture&) = delete;
  log_capture& operator=(const log_capture&) = delete;
  ~log_capture() { spdlog::set_default_logger(before_); }

  /// Once nobody logs any more.
  [[nodiscard]] std::size_t lines_with(std::string_view text) const {
    std::istringstream all(written_.str());
    std::size_t count = 0;
    for (std::string line; std::getline(all, line);) count += line.find(text) != line.npos ? 1 : 0;
    return count;
  }

 private:
  const std::shared_ptr<spdlog::logger> before_;
  std::ostringstream written_;
};

/// A server whose /metrics and /healthz throw.
class throwing_server {
 public:
  explicit throwing_server(executor_kind kind) : settings_(of(kind)) {
    site_.write_metrics = [](std::string& to) {
      to += "half of it";
      throw std::runtime_error("no metrics today");
    };
    site_.describe_stall = [](std::string&) { throw std::bad_alloc(); };
    methods_.unary("/test/Throw", &throws);
    listener_->start(connections_, 1000);
  }
  throwing_server(const throwing_server&) = delete;
  throwing_server& operator=(const throwing_server&) = delete;
  ~throwing_server() {
    listener_->close();
    while (!listener_->closed() || listener_->connections() > 0) std::this_thread::yield();
    running_->stop();
  }

  [[nodiscard]] std::string address() const { return listener_->address(); }
  [[nodiscard]] std::uint64_t counted(std::string_view path, server::status code) const {
    return site_.counted(metrics_.total(), path, code);
  }
  [[nodiscard]] std::uint64_t out_of_memory() const { return metrics_.total().out_of_memory; }

 private:
  static config of(executor_kind kind) {
    config chosen;
    chosen.executor = kind;
    chosen.workers = 2;
    return chosen;
  }

  const config settings_;
  server::test::demo_site site_;
  metrics::registry metrics_{server::test::demo_site::kinds};
  route_times times_{0, site_.routes.count()};
  method_table methods_;
  const std::atomic<bool> leaving_{false};
  const std::unique_ptr<runtime> running_ = make_runtime(settings_);
  const queue_age_bound queue_age_{running_->workers_of_ours(), {}};
  const served_methods served_{methods_, settings_.calls};
  const h2::common http2_{.workers = running_->workers(),
                          .drain = site_.drain,
                          .metrics = metrics_,
                          .bounds = settings_.http2,
                          .leaving = leaving_,
                          .memory = server::test::unlimited_memory(),
                          .calls = &served_};
  const h1::common http_{.workers = running_->workers(),
                         .drain = site_.drain,
                         .routes = site_.routes,
                         .metrics = metrics_,
                         .limits = settings_.http,
                         .times = times_,
                         .queue_age = queue_age_,
                         .http2 = http2_};
  const h1::factory connections_{http_};
  const std::unique_ptr<port> listener_ = running_->listen("127.0.0.1:0", 100);
};

std::string asked(tcp_client& connection, const std::string& path) {
  EXPECT_TRUE(connection.send("GET " + path + " HTTP/1.1\r\nHost: a\r\n\r\n"));
  std::string answer;
  while (!answer.ends_with("\r\n\r\n")) {
    const std::string byte = connection.receive(1);
    if (byte.empty()) return answer;
    answer += byte;
  }
  constexpr std::string_view name = "Content-Length: ";
  const std::size_t at = answer.find(name);
  if (at == std::string::npos) return answer;
  return answer + connection.receive(std::stoul(answer.substr(at + name.size())));
}

/// A connection of HTTP/2.
class http2_client {
 public:
  explicit http2_client(const std::string& address) : socket_(address) {
    socket_.send(preface + frame(settings, none, 0, ""));
  }
  answer ask(const std::string& frames, std::uint32_t stream) {
    EXPECT_TRUE(socket_.send(frames));
    while (!answers_in(all_)[stream].ended) {
      const std::string head = socket_.receive(9);
      if (head.size() < 9) break;
      const auto byte = [&](std::size_t i) { return static_cast<std::uint8_t>(head[i]); };
      const auto size = static_cast<std::size_t>(byte(0) << 16 | byte(1) << 8 | byte(2));
      for (read_frame& each : reader_.read(head + socket_.receive(size))) {
        all_.push_back(std::move(each));
      }
    }
    return answers_in(all_)[stream];
  }
  answer get(std::uint32_t stream, const std::string& path) {
    return ask(
        header_frame(
            stream, {{":method", "GET"}, {":scheme", "http"}, {":path", path}, {":authority", "a"}},
            end_stream),
        stream);
  }

 private:
  tcp_client socket_;
  frame_reader reader_;
  std::vector<read_frame> all_;
};

class handler_throw : public testing::TestWithParam<executor_kind> {};

TEST_P(handler_throw, is_500_over_http1_and_its_connection_goes_on) {
  const throwing_server server(GetParam());
  tcp_client connection(server.address());
  for (const char* path : {"/metrics", "/healthz"}) {
    const std::string answer = asked(connection, path);
    EXPECT_TRUE(answer.starts_with("HTTP/1.1 500 Internal Server Error\r\n")) << answer;
    EXPECT_TRUE(answer.ends_with("\r\n\r\ninternal server error\n")) << answer;
    EXPECT_EQ(answer.find("Connection: close"), std::string::npos) << answer;
    EXPECT_TRUE(asked(connection, "/plaintext").ends_with("Hello, World!"));
  }
  EXPECT_EQ(server.counted("/metrics", server::status::internal_error), 1U);
  EXPECT_EQ(server.counted("/healthz", server::status::internal_error), 1U);
  EXPECT_EQ(server.counted("/plaintext", server::status::ok), 2U);
  EXPECT_EQ(server.out_of_memory(), 0U);
}

TEST_P(handler_throw, is_500_over_http2_and_its_connection_goes_on) {
  const throwing_server server(GetParam());
  http2_client connection(server.address());
  std::uint32_t stream = 1;
  for (const char* path : {"/metrics", "/healthz"}) {
    const answer failed = connection.get(stream, path);
    EXPECT_EQ(failed.status, "500") << path;
    EXPECT_EQ(failed.body, "internal server error\n") << path;
    EXPECT_EQ(connection.get(stream + 2, "/plaintext").body, "Hello, World!") << path;
    stream += 4;
  }
  EXPECT_EQ(server.counted("/metrics", server::status::internal_error), 1U);
  EXPECT_EQ(server.counted("/healthz", server::status::internal_error), 1U);
  EXPECT_EQ(server.out_of_memory(), 0U);
}

TEST_P(handler_throw, is_logged_with_its_route_and_no_more_than_once_a_second) {
  constexpr int asks = 200;
  std::this_thread::sleep_for(throw_log::apart);  // behind the line of a test before
  const log_capture log;
  const auto begun = std::chrono::steady_clock::now();
  {
    const throwing_server server(GetParam());
    tcp_client connection(server.address());
    for (int i = 0; i < asks; ++i) asked(connection, "/metrics");
    EXPECT_EQ(server.counted("/metrics", server::status::internal_error), asks);
  }
  const auto took = std::chrono::steady_clock::now() - begun;
  EXPECT_GE(log.lines_with("the handler of /metrics threw: no metrics today"), 1U);
  EXPECT_LE(log.lines_with("threw"), 1U + static_cast<std::size_t>(took / std::chrono::seconds(1)));
}

INSTANTIATE_TEST_SUITE_P(executors, handler_throw,
                         testing::Values(executor_kind::bwos, executor_kind::asio_pool,
                                         executor_kind::asio_io_context),
                         [](const auto& instance) {
                           std::string name(name_of(instance.param));
                           for (char& c : name) c = c == '-' ? '_' : c;
                           return name;
                         });

/// UNKNOWN, as gRPC C++ has it.
TEST(handler_throw_of_a_call, is_unknown_and_logged_with_its_method) {
  for (const executor_kind kind : {executor_kind::bwos, executor_kind::asio_pool}) {
    std::this_thread::sleep_for(throw_log::apart);  // behind the line before
    const log_capture log;
    {
      const throwing_server server(kind);
      http2_client connection(server.address());
      const answer failed = connection.ask(call_frames(1, "x", "/test/Throw"), 1);
      EXPECT_EQ(failed.field("grpc-status"), "2");
      EXPECT_EQ(failed.field("grpc-message"), "Unexpected error in RPC handling");
      EXPECT_EQ(connection.get(3, "/plaintext").body, "Hello, World!");
    }
    EXPECT_EQ(log.lines_with("the handler of /test/Throw threw: not for callers"), 1U);
  }
}

}  // namespace
}  // namespace bwos::server::rpc::test
