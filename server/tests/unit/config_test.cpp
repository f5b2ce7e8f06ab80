// SPDX-License-Identifier: Apache-2.0
#include "config.hpp"

#include <gtest/gtest.h>

#include <sstream>
#include <string>
#include <vector>

namespace bwos::server {
namespace {

using namespace std::chrono_literals;

struct parsed {
  command_line line;
  std::string out, err;
};

parsed parse(std::vector<const char*> arguments) {
  arguments.insert(arguments.begin(), "bwos-server");
  std::ostringstream out;
  std::ostringstream err;
  command_line line =
      parse_command_line(static_cast<int>(arguments.size()), arguments.data(), out, err);
  return {std::move(line), out.str(), err.str()};
}

const config& accepted(const parsed& from) {
  EXPECT_EQ(from.line.exit_code, std::nullopt) << from.err;
  EXPECT_EQ(from.err, "");
  return from.line.settings;
}

TEST(config, listens_on_loopback_unless_told_otherwise) {
  const parsed result = parse({});
  const config& defaults = accepted(result);
  EXPECT_EQ(defaults.http_listen, "127.0.0.1:8080");
  EXPECT_EQ(defaults.grpc.address, "127.0.0.1:50051");
  EXPECT_EQ(defaults.drain_delay, 0s);
  EXPECT_EQ(defaults.http.drain_idle, 1s);
  EXPECT_EQ(defaults.drain_timeout, 30s);
  EXPECT_EQ(defaults.http.header_bytes_max, 16U * 1024);
  EXPECT_EQ(defaults.http.body_bytes_max, 1024U * 1024);
  EXPECT_EQ(defaults.work_us_max, 10'000U);
  EXPECT_EQ(defaults.workers, default_workers());
}

TEST(config, reads_every_flag) {
  const parsed result = parse({"--http-listen",
                               "[::]:0",
                               "--grpc-listen",
                               "127.0.0.1:1",
                               "--backlog",
                               "7",
                               "--connections-max",
                               "9",
                               "--workers",
                               "3",
                               "--reactor-group",
                               "2",
                               "--reactor",
                               "epoll",
                               "--steal",
                               "none",
                               "--pin",
                               "--header-bytes-max",
                               "1KiB",
                               "--body-bytes-max",
                               "2MiB",
                               "--pipeline-max",
                               "5",
                               "--work-us-max",
                               "0",
                               "--grpc-message-bytes-max",
                               "5B",
                               "--grpc-streams-max",
                               "6",
                               "--grpc-threads",
                               "2",
                               "--grpc-armed",
                               "8",
                               "--idle-timeout",
                               "1s",
                               "--header-timeout",
                               "2s",
                               "--body-timeout",
                               "3s",
                               "--write-timeout",
                               "4s",
                               "--drain-delay",
                               "5s",
                               "--drain-idle",
                               "6s",
                               "--drain-timeout",
                               "0",
                               "--log-level",
                               "warn"});
  const config& all = accepted(result);
  EXPECT_EQ(all.http_listen, "[::]:0");
  EXPECT_EQ(all.grpc.address, "127.0.0.1:1");
  EXPECT_EQ(all.backlog, 7);
  EXPECT_EQ(all.connections_max, 9U);
  EXPECT_EQ(all.workers, 3U);
  EXPECT_EQ(all.reactor_group, 2U);
  EXPECT_EQ(all.reactor, reactor_kind::epoll);
  EXPECT_EQ(all.steal, steal_kind::none);
  EXPECT_TRUE(all.pin);
  EXPECT_EQ(all.http.header_bytes_max, 1024U);
  EXPECT_EQ(all.http.body_bytes_max, 2U << 20);
  EXPECT_EQ(all.http.pipeline_max, 5U);
  EXPECT_EQ(all.work_us_max, 0U);
  EXPECT_EQ(all.grpc.message_bytes_max, 5U);
  EXPECT_EQ(all.grpc.streams_max, 6U);
  EXPECT_EQ(all.grpc.queue_threads, 2U);
  EXPECT_EQ(all.grpc.calls_armed, 8U);
  EXPECT_EQ(all.http.idle_timeout, 1s);
  EXPECT_EQ(all.http.header_timeout, 2s);
  EXPECT_EQ(all.http.body_timeout, 3s);
  EXPECT_EQ(all.http.write_timeout, 4s);
  EXPECT_EQ(all.drain_delay, 5s);
  EXPECT_EQ(all.http.drain_idle, 6s);
  EXPECT_EQ(all.drain_timeout, 0s);
  EXPECT_EQ(all.log_level, "warn");
}

TEST(config, names_flag_value_and_range_of_every_bad_value_in_one_line) {
  struct bad {
    std::vector<const char*> arguments;
    std::vector<const char*> named;
  };
  const std::vector<bad> all{
      {{"--workers", "0"}, {"--workers 0", "1 to 1024"}},
      {{"--workers", "1025"}, {"--workers 1025", "1 to 1024"}},
      {{"--workers", "-1"}, {"--workers -1", "1 to 1024"}},
      {{"--workers", "two"}, {"--workers two", "1 to 1024"}},
      {{"--workers="}, {"--workers", "1 to 1024"}},
      {{"--workers"}, {"--workers", "1 to 1024"}},
      {{"--workers", "18446744073709551617"}, {"--workers 18446744073709551617", "1 to 1024"}},
      {{"--reactor-group", "0"}, {"--reactor-group 0", "1 to 1024"}},
      {{"--reactor", "kqueue"}, {"--reactor kqueue", "auto|io_uring|epoll"}},
      {{"--steal", "all"}, {"--steal all", "random|none"}},
      {{"--reactor", "io_uring", "--reactor-group", "2"}, {"--reactor-group 2", "must be 1"}},
      {{"--http-listen", "127.0.0.1"}, {"--http-listen 127.0.0.1", "ADDRESS:PORT"}},
      {{"--grpc-listen", "127.0.0.1:65536"}, {"--grpc-listen 127.0.0.1:65536", "0 to 65535"}},
      {{"--http-listen", "", "--grpc-listen", ""}, {"--http-listen ''", "nothing would listen"}},
      {{"--idle-timeout", "60"}, {"--idle-timeout 60", "1ms to 24h"}},
      {{"--drain-timeout", "25h"}, {"--drain-timeout 25h", "0 to 24h"}},
      {{"--header-bytes-max", "1"}, {"--header-bytes-max 1", "64B to 1MiB"}},
      {{"--body-bytes-max", "1TiB"}, {"--body-bytes-max 1TiB", "0 to 1GiB"}},
      {{"--log-level", "loud"}, {"--log-level loud", "trace|debug|info|warn|error|off"}},
      {{"--pin=maybe"}, {"--pin"}},
      {{"--no-such-flag"}, {"--no-such-flag"}},
      {{"stray"}, {"stray"}},
  };
  for (const bad& each : all) {
    const parsed result = parse(each.arguments);
    EXPECT_EQ(result.line.exit_code, 2) << each.arguments.front();
    EXPECT_EQ(result.out, "");
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
    EXPECT_TRUE(result.err.ends_with("\n"));
    for (const char* text : each.named)
      EXPECT_NE(result.err.find(text), std::string::npos) << result.err << text;
  }
}

TEST(config, takes_the_last_of_a_repeated_flag) {
  const parsed result = parse({"--workers", "1", "--workers", "2"});
  EXPECT_EQ(accepted(result).workers, 2U);
}

TEST(config, derives_the_reactor_group_where_it_is_not_given) {
  const auto group = [](std::vector<const char*> arguments) {
    const parsed result = parse(std::move(arguments));
    const options pool = accepted(result).pool_options();
    EXPECT_NO_THROW(pool.validate());
    return pool.reactor_group;
  };
  EXPECT_EQ(group({"--workers", "16"}), 8U);
  EXPECT_EQ(group({"--workers", "3"}), 3U);
  EXPECT_EQ(group({"--workers", "16", "--reactor-group", "16"}), 16U);
  EXPECT_EQ(group({"--workers", "2", "--reactor-group", "1"}), 1U);
  EXPECT_EQ(group({"--workers", "4", "--reactor", "io_uring"}), 1U);
  EXPECT_EQ(group({"--workers", "4", "--reactor", "io_uring", "--reactor-group", "1"}), 1U);
}

TEST(config, prints_help_in_groups_with_defaults_and_ranges) {
  const parsed result = parse({"--help"});
  EXPECT_EQ(result.line.exit_code, 0);
  EXPECT_EQ(result.err, "");
  for (const char* text : {"Listening:", "Workers:", "HTTP limits:", "gRPC limits:", "Timeouts:",
                           "Logging:", "127.0.0.1:8080", "1 to 1024", "16KiB"}) {
    EXPECT_NE(result.out.find(text), std::string::npos) << text;
  }
}

TEST(config, prints_its_version) {
  const parsed result = parse({"--version"});
  EXPECT_EQ(result.line.exit_code, 0);
  EXPECT_EQ(result.out, std::string("bwos-server ") + version() + "\n");
}

}  // namespace
}  // namespace bwos::server
