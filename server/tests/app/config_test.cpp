// SPDX-License-Identifier: Apache-2.0
#include "app/config.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
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

/// All that --help names: "--workers".
std::vector<std::string> flags_of_help() {
  std::istringstream text(parse({"--help"}).out);
  std::vector<std::string> flags;
  for (std::string line; std::getline(text, line);) {
    const std::size_t at = line.find("--");
    if (at == 2 || line.starts_with("  -h,--"))
      flags.push_back(line.substr(at, line.find(' ', at) - at));
  }
  EXPECT_GT(flags.size(), 30U);
  return flags;
}

TEST(config, listens_on_loopback_unless_told_otherwise) {
  const parsed result = parse({});
  const config& defaults = accepted(result);
  EXPECT_EQ(defaults.http_listen, "127.0.0.1:8080");
  EXPECT_EQ(defaults.grpc.address, "127.0.0.1:50051");
  EXPECT_EQ(defaults.queue_age_max, 0s);
  EXPECT_EQ(defaults.pool_options().queue_age_interval, 0s);
  EXPECT_EQ(defaults.stall_timeout, 10s);
  EXPECT_EQ(defaults.log_format, log_format::text);
  EXPECT_EQ(defaults.access_log.file, "");
  EXPECT_EQ(defaults.access_log.sample, 1U);
  EXPECT_EQ(defaults.drain_delay, 0s);
  EXPECT_EQ(defaults.http.drain_idle, 1s);
  EXPECT_EQ(defaults.drain_timeout, 30s);
  EXPECT_EQ(defaults.http.header_bytes_max, 16U * 1024);
  EXPECT_EQ(defaults.http.body_bytes_max, 1024U * 1024);
  EXPECT_EQ(defaults.work_us_max, 10'000U);
  EXPECT_EQ(defaults.workers, default_workers());
  EXPECT_EQ(defaults.connections_max, 0U);
  EXPECT_EQ(defaults.connections_per_address_max, 0U);
  EXPECT_EQ(defaults.memory_max, 0U);
  EXPECT_EQ(defaults.socket_unsent_bytes_max, 128U * 1024);
  EXPECT_EQ(defaults.socket_unread_bytes_max, 0U);
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
                               "--connections-per-address-max",
                               "4",
                               "--socket-unsent-bytes-max",
                               "32KiB",
                               "--socket-unread-bytes-max",
                               "96KiB",
                               "--memory-max",
                               "64MiB",
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
                               "--grpc",
                               "grpc++",
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
                               "--queue-age-max",
                               "50ms",
                               "--stall-timeout",
                               "7s",
                               "--drain-delay",
                               "5s",
                               "--drain-idle",
                               "6s",
                               "--drain-timeout",
                               "0",
                               "--log-level",
                               "warn",
                               "--log-format",
                               "json",
                               "--access-log",
                               "-",
                               "--access-log-sample",
                               "10",
                               "--access-log-buffer",
                               "64KiB"});
  const config& all = accepted(result);
  EXPECT_EQ(all.http_listen, "[::]:0");
  EXPECT_EQ(all.grpc.address, "127.0.0.1:1");
  EXPECT_EQ(all.backlog, 7);
  EXPECT_EQ(all.connections_max, 9U);
  EXPECT_EQ(all.connections_per_address_max, 4U);
  EXPECT_EQ(all.socket_unsent_bytes_max, 32U * 1024);
  EXPECT_EQ(all.socket_unread_bytes_max, 96U * 1024);
  EXPECT_EQ(all.memory_max, std::size_t{64} << 20);
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
  EXPECT_EQ(all.queue_age_max, 50ms);
  EXPECT_EQ(all.pool_options().queue_age_interval, 12ms);
  EXPECT_EQ(all.stall_timeout, 7s);
  EXPECT_EQ(all.drain_delay, 5s);
  EXPECT_EQ(all.http.drain_idle, 6s);
  EXPECT_EQ(all.drain_timeout, 0s);
  EXPECT_EQ(all.log_level, "warn");
  EXPECT_EQ(all.access_log.file, "-");
  EXPECT_EQ(all.access_log.sample, 10U);
  EXPECT_EQ(all.access_log.buffer_bytes_max, 64U << 10);
  EXPECT_EQ(all.log_format, log_format::json);
}

TEST(config, every_order_of_victims_has_its_name) {
  for (unsigned i = 0; i <= static_cast<unsigned>(steal_kind::topology); ++i) {
    const auto kind = static_cast<steal_kind>(i);
    const parsed result = parse({"--steal", name_of(kind)});
    EXPECT_EQ(accepted(result).steal, kind);
    EXPECT_EQ(accepted(result).pool_options().steal, kind);
  }
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
      {{"--steal", "all"},
       {"--steal all", "random|none|sequential|last-victim|best-of-two|best-of-many|topology"}},
      {{"--reactor", "io_uring", "--reactor-group", "2"}, {"--reactor-group 2", "must be 1"}},
      {{"--http-listen", "127.0.0.1"}, {"--http-listen 127.0.0.1", "ADDRESS:PORT"}},
      {{"--grpc-listen", "127.0.0.1:65536"}, {"--grpc-listen 127.0.0.1:65536", "0 to 65535"}},
      {{"--http-listen", "", "--grpc-listen", ""}, {"--http-listen ''", "nothing would listen"}},
      {{"--idle-timeout", "60"}, {"--idle-timeout 60", "1ms to 24h", "(us, ms, s, m, h)"}},
      {{"--drain-timeout", "25h"}, {"--drain-timeout 25h", "0 to 24h"}},
      {{"--header-bytes-max", "1"}, {"--header-bytes-max 1", "64B to 1MiB"}},
      {{"--body-bytes-max", "1TiB"}, {"--body-bytes-max 1TiB", "0 to 1GiB"}},
      {{"--connections-per-address-max", "1000001"},
       {"--connections-per-address-max 1000001", "0 to 1000000"}},
      {{"--socket-unsent-bytes-max", "2GiB"}, {"--socket-unsent-bytes-max 2GiB", "0 to 1GiB"}},
      {{"--socket-unread-bytes-max", "2GiB"}, {"--socket-unread-bytes-max 2GiB", "0 to 1GiB"}},
      {{"--memory-max", "0"}, {"--memory-max 0", "32MiB to 1048576GiB"}},
      {{"--memory-max", "33554431"}, {"--memory-max 33554431", "32MiB to 1048576GiB"}},
      {{"--memory-max", "32MiB", "--workers", "129"}, {"--memory-max 32MiB", "33024KiB or more"}},
      {{"--memory-max", "1048577GiB"}, {"--memory-max 1048577GiB", "32MiB to 1048576GiB"}},
      {{"--log-level", "loud"}, {"--log-level loud", "must be info|warn|off"}},
      {{"--log-level", "error"}, {"--log-level error", "must be info|warn|off"}},
      {{"--log-format", "xml"}, {"--log-format xml", "text|json"}},
      {{"--access-log", "-", "--access-log-sample", "0"},
       {"--access-log-sample 0", "1 to 1000000"}},
      {{"--access-log", "-", "--access-log-buffer", "1KiB"},
       {"--access-log-buffer 1KiB", "4KiB to 1GiB"}},
      {{"--access-log-sample", "2"}, {"--access-log-sample 2", "left out with no --access-log"}},
      {{"--stall-timeout", "10"}, {"--stall-timeout 10", "0 to 24h"}},
      {{"--queue-age-max", "2m"}, {"--queue-age-max 2m", "0 to 1m"}},
      {{"--queue-age-max", "4999us"}, {"--queue-age-max 4999us", "5ms to 1m"}},
      {{"--h2-acks-max", "10001"}, {"--h2-acks-max 10001", "1 to 10000"}},
      {{"--h2-write-rate-min", "2MiB"}, {"--h2-write-rate-min 2MiB", "0 to 1MiB"}},
      {{"--drain-delay", "-1s"}, {"--drain-delay -1s", "0 to 24h"}},
      {{"--drain-idle", "1d"}, {"--drain-idle 1d", "0 to 24h"}},
      {{"--pin=maybe"}, {"--pin maybe", "true or false"}},
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

TEST(config, a_flag_with_nothing_behind_its_equals_sign_takes_no_other_word) {
  for (const std::string& flag : flags_of_help()) {
    const std::string lacking = flag + "=";
    for (const char* next : {"127.0.0.1:1", "2", "true", "1s", "--pin"}) {
      const parsed result = parse({lacking.c_str(), next});
      EXPECT_EQ(result.line.exit_code, 2) << lacking << " " << next;
      EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
      EXPECT_TRUE(result.err.starts_with("bwos-server: " + flag + ": no ")) << result.err;
      EXPECT_NE(result.err.find(" behind '='"), std::string::npos) << result.err;
    }
  }
  const std::string refusal = parse({"--workers", "1", "--grpc-listen=", "127.0.0.1:1"}).err;
  EXPECT_NE(refusal.find("ADDRESS:PORT such as"), std::string::npos) << refusal;
  EXPECT_NE(parse({"--executor=", "bwos"}).err.find("bwos|asio-pool|"), std::string::npos);
  EXPECT_NE(parse({"--workers="}).err.find("1 to 1024"), std::string::npos);
  EXPECT_EQ(accepted(parse({"--grpc-listen", ""})).grpc_listen, "");
}

TEST(config, what_all_peers_together_may_have_reaches_from_little_to_much) {
  EXPECT_EQ(accepted(parse({"--memory-max", "32MiB"})).memory_max, std::size_t{32} << 20);
  accepted(parse({"--memory-max", "32MiB", "--workers", "128"}));
  EXPECT_EQ(accepted(parse({"--memory-max", "1048576GiB"})).memory_max, std::size_t{1} << 50);
  EXPECT_EQ(accepted(parse({"--socket-unsent-bytes-max", "0"})).socket_unsent_bytes_max, 0U);
  EXPECT_EQ(accepted(parse({"--socket-unread-bytes-max", "0"})).socket_unread_bytes_max, 0U);
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

TEST(config, chooses_an_executor_and_its_reactor_threads) {
  const auto threads = [](std::vector<const char*> arguments) {
    const parsed result = parse(std::move(arguments));
    const options pool = accepted(result).pool_options();
    EXPECT_NO_THROW(pool.validate());
    return pool.reactor_threads;
  };
  EXPECT_EQ(accepted(parse({})).executor, executor_kind::bwos);
  EXPECT_EQ(accepted(parse({"--executor", "asio-pool"})).executor, executor_kind::asio_pool);
  EXPECT_EQ(threads({}), 0U);
  EXPECT_EQ(threads({"--reactor-threads", "0"}), 0U);
  EXPECT_EQ(threads({"--reactor-threads", "64"}), 64U);
  EXPECT_EQ(threads({"--executor", "asio-pool"}), 1U);
  EXPECT_EQ(threads({"--executor", "asio-pool", "--reactor-threads", "3"}), 3U);
}

TEST(config, an_io_context_has_no_lane_but_one_of_its_own) {
  const parsed plain = parse({"--executor", "asio-io-context"});
  EXPECT_EQ(accepted(plain).executor, executor_kind::asio_io_context);
  EXPECT_EQ(accepted(plain).lane_threshold(), 0us);
  const parsed lane = parse({"--executor", "asio-io-context", "--asio-lane"});
  EXPECT_EQ(accepted(lane).lane_threshold(), 50us);
  const parsed set =
      parse({"--executor", "asio-io-context", "--asio-lane", "--lane-threshold-us", "7"});
  EXPECT_EQ(accepted(set).lane_threshold(), 7us);
}

TEST(config, has_a_lane_by_default_where_long_work_leaves_no_connection_unattended) {
  const auto threshold = [](std::vector<const char*> arguments) {
    return accepted(parse(std::move(arguments))).lane_threshold();
  };
  EXPECT_EQ(threshold({"--workers", "2"}), 50us);
  EXPECT_EQ(threshold({"--workers", "2", "--reactor-group", "1"}), 0us);
  EXPECT_EQ(threshold({"--workers", "2", "--reactor", "io_uring"}), 0us);
  EXPECT_EQ(threshold({"--workers", "2", "--reactor-threads", "1"}), 50us);
  EXPECT_EQ(threshold({"--workers", "2", "--reactor", "io_uring", "--reactor-threads", "1"}), 50us);
  EXPECT_EQ(threshold({"--workers", "2", "--executor", "asio-pool"}), 0us);
}

TEST(config, serves_grpc_natively_where_it_can_unless_told_otherwise) {
  EXPECT_EQ(accepted(parse({})).grpc_by, grpc_kind::native);
  EXPECT_EQ(accepted(parse({"--executor", "asio-pool"})).grpc_by, grpc_kind::native);
  EXPECT_EQ(accepted(parse({"--executor", "asio-io-context"})).grpc_by, grpc_kind::cpp);
  for (const char* executor : {"bwos", "asio-pool", "asio-io-context"}) {
    EXPECT_EQ(accepted(parse({"--executor", executor, "--grpc", "grpc++"})).grpc_by,
              grpc_kind::cpp);
  }
  const parsed result = parse({"--grpc",
                               "native",
                               "--grpc-message-bytes-max",
                               "5B",
                               "--grpc-streams-max",
                               "6",
                               "--grpc-handlers-max",
                               "7",
                               "--h2-header-bytes-max",
                               "1KiB",
                               "--h2-output-bytes-max",
                               "2KiB",
                               "--h2-request-bytes-max",
                               "3MiB",
                               "--h2-inflate-ratio-max",
                               "1000",
                               "--h2-write-rate-min",
                               "1KiB",
                               "--h2-acks-max",
                               "8",
                               "--h2-handshake-timeout",
                               "9s",
                               "--h2-header-timeout",
                               "10s",
                               "--h2-idle-timeout",
                               "11s",
                               "--write-timeout",
                               "12s",
                               "--body-timeout",
                               "13s",
                               "--grpc-test-service",
                               "--executor",
                               "asio-pool"});
  const config& all = accepted(result);
  EXPECT_EQ(all.grpc_by, grpc_kind::native);
  EXPECT_EQ(all.calls.message_bytes_max, 5U);
  EXPECT_EQ(all.http2.streams_max, 6U);
  EXPECT_EQ(all.http2.handlers_max, 7U);
  EXPECT_EQ(all.http2.header_bytes_max, 1024U);
  EXPECT_EQ(all.http2.output_bytes_max, 2048U);
  EXPECT_EQ(all.http2.request_bytes_max, 3U << 20);
  EXPECT_EQ(all.calls.inflate_ratio_max, 1000U);
  EXPECT_EQ(all.http2.write_rate_min, 1024U);
  EXPECT_EQ(all.http2.write_bytes_min(), 12U * 1024U);
  EXPECT_EQ(all.http2.acks_max, 8U);
  EXPECT_EQ(all.http2.handshake_timeout, 9s);
  EXPECT_EQ(all.http2.header_timeout, 10s);
  EXPECT_EQ(all.http2.idle_timeout, 11s);
  EXPECT_EQ(all.http2.write_timeout, 12s);
  EXPECT_EQ(all.http2.body_timeout, 13s);
  EXPECT_TRUE(all.grpc_test_service);
  EXPECT_FALSE(accepted(parse({})).grpc_test_service);
}

TEST(config, prints_help_in_groups_with_defaults_and_ranges) {
  const parsed result = parse({"--help"});
  EXPECT_EQ(result.line.exit_code, 0);
  EXPECT_EQ(result.err, "");
  for (const char* text : {"Listening:", "Memory:", "60 % of the cgroup's limit",
                           "Workers:", "HTTP limits:", "gRPC limits:", "HTTP/2 limits",
                           "Timeouts:", "Logging:", "127.0.0.1:8080", "1 to 1024", "16KiB",
                           "BWOS_A_B", "--config FILE"}) {
    EXPECT_NE(result.out.find(text), std::string::npos) << text;
  }
}

TEST(config, prints_its_version) {
  const parsed result = parse({"--version"});
  EXPECT_EQ(result.line.exit_code, 0);
  EXPECT_EQ(result.out, std::string("bwos-server ") + version() + " (" + build() + ")\n");
  EXPECT_NE(std::string(build()).find(", "), std::string::npos) << build();
}

// The file and the environment. -----------------------------------------------------------------

class file {
 public:
  explicit file(const std::string& text)
      : path_(testing::TempDir() + "bwos_config_test." + std::to_string(::getpid())) {
    std::ofstream(path_) << text;
  }
  ~file() { std::remove(path_.c_str()); }
  file(const file&) = delete;
  file& operator=(const file&) = delete;
  [[nodiscard]] const char* path() const { return path_.c_str(); }

 private:
  std::string path_;
};

class variable {
 public:
  variable(const char* name, const char* value) : name_(name) { ::setenv(name, value, 1); }
  ~variable() { ::unsetenv(name_); }
  variable(const variable&) = delete;
  variable& operator=(const variable&) = delete;

 private:
  const char* name_;
};

TEST(config_sources, a_file_has_what_flags_have) {
  const file text(
      "# a comment\n"
      "http-listen = \"[::]:0\"\n"
      "grpc-listen = ''\n"
      "workers = 3   # and another\n"
      "pin = true\n"
      "drain-delay = 5s\n"
      "body-bytes-max = \"2MiB\"\n"
      "log-format = json\n");
  const parsed result = parse({"--config", text.path()});
  const config& all = accepted(result);
  EXPECT_EQ(all.http_listen, "[::]:0");
  EXPECT_EQ(all.grpc_listen, "");
  EXPECT_EQ(all.workers, 3U);
  EXPECT_TRUE(all.pin);
  EXPECT_EQ(all.drain_delay, 5s);
  EXPECT_EQ(all.http.body_bytes_max, 2U << 20);
  EXPECT_EQ(all.log_format, log_format::json);
}

TEST(config_sources, a_flag_goes_over_a_variable_and_that_over_the_file) {
  const file text("workers = 3\nbacklog = 4\npipeline-max = 5\npin = true\n");
  const variable workers("BWOS_WORKERS", "6");
  const variable backlog("BWOS_BACKLOG", "7");
  const variable pin("BWOS_PIN", "false");
  const parsed result = parse({"--workers", "8", "--config", text.path()});
  const config& all = accepted(result);
  EXPECT_EQ(all.workers, 8U);
  EXPECT_EQ(all.backlog, 7);
  EXPECT_EQ(all.http.pipeline_max, 5U);
  EXPECT_FALSE(all.pin);
}

TEST(config_sources, a_variable_names_the_file_unless_the_flag_does) {
  const file text("workers = 3\n");
  const variable named("BWOS_CONFIG", text.path());
  const variable of_somebody_else("BWOS_NO_SUCH_FLAG", "1");
  const parsed result = parse({});
  EXPECT_EQ(accepted(result).workers, 3U);
  const parsed none = parse({"--config", ""});
  EXPECT_EQ(accepted(none).workers, default_workers());
  EXPECT_EQ(parse({"--config", "/nowhere"}).line.exit_code, 2);
}

/// The one line that refuses it.
std::string refusal_of(const parsed& result) {
  EXPECT_EQ(result.line.exit_code, 2);
  EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
  return result.err;
}

TEST(config, native_grpc_needs_sockets_of_ours_and_each_grpc_its_own_flags) {
  EXPECT_NE(refusal_of(parse({"--grpc", "native", "--executor", "asio-io-context"}))
                .find("--grpc native: must be grpc++ with --executor asio-io-context: "),
            std::string::npos);
  for (const char* flag : {"--grpc-threads", "--grpc-armed"}) {
    EXPECT_NE(refusal_of(parse({"--grpc", "native", flag, "2"}))
                  .find(std::string(flag) + " 2: must be left out with --grpc native"),
              std::string::npos);
  }
  EXPECT_NE(refusal_of(parse({"--grpc", "grpc++", "--grpc-handlers-max", "2"}))
                .find("--grpc-handlers-max 2: must be left out with --grpc grpc++"),
            std::string::npos);
  // HTTP/2 is on the HTTP port whoever serves gRPC.
  EXPECT_EQ(accepted(parse({"--h2-acks-max", "2"})).http2.acks_max, 2U);
  EXPECT_EQ(accepted(parse({"--h2-write-rate-min", "0"})).http2.write_bytes_min(), 1U);
  EXPECT_EQ(accepted(parse({"--write-timeout", "1ms"})).http2.write_bytes_min(), 1U);
}

TEST(config, flags_of_what_another_has_turned_off_are_mistakes) {
  struct off {
    std::vector<const char*> with;
    std::string by;
    std::vector<const char*> without;
  };
  const std::vector<off> all = {
      {{"--lane-age", "1ms", "--lane-threshold-us", "0"},
       "--lane-age 1ms: must be left out with --lane-threshold-us 0: ",
       {"--lane-age", "1ms"}},
      {{"--executor", "asio-io-context", "--asio-lane", "--lane-threshold-us", "0"},
       "--asio-lane true: must be left out with --lane-threshold-us 0: ",
       {"--executor", "asio-io-context", "--asio-lane"}},
      {{"--h2-keepalive-timeout", "2s", "--h2-keepalive", "0"},
       "--h2-keepalive-timeout 2s: must be left out with --h2-keepalive 0: ",
       {"--h2-keepalive-timeout", "2s"}},
      {{"--h2-age-grace", "4s"},
       "--h2-age-grace 4s: must be left out with --h2-age-max 0: ",
       {"--h2-age-grace", "4s", "--h2-age-max", "1h"}}};
  for (const auto& [with, by, without] : all) {
    const std::string refusal = refusal_of(parse(with));
    EXPECT_TRUE(refusal.starts_with("bwos-server: " + by)) << refusal;
    accepted(parse(without));
  }
  // The lane is off by default where workers have reactors of their own.
  accepted(parse({"--reactor-group", "1", "--lane-age", "1ms"}));
  accepted(parse({"--lane-threshold-us", "0"}));
  accepted(parse({"--h2-keepalive", "0"}));
  accepted(parse({"--h2-age-max", "0"}));
}

TEST(config, http2_has_its_times_and_strikes) {
  const parsed result =
      parse({"--h2-keepalive", "1s", "--h2-keepalive-timeout", "2s", "--h2-age-max", "3s",
             "--h2-age-grace", "4s", "--h2-ping-interval-min", "5s", "--h2-ping-strikes-max", "6"});
  const h2::limits& all = accepted(result).http2;
  using namespace std::chrono_literals;
  EXPECT_EQ(all.keepalive, 1s);
  EXPECT_EQ(all.keepalive_timeout, 2s);
  EXPECT_EQ(all.age_max, 3s);
  EXPECT_EQ(all.age_grace, 4s);
  EXPECT_EQ(all.ping_interval_min, 5s);
  EXPECT_EQ(all.ping_strikes_max, 6U);
  const h2::limits defaults = accepted(parse({})).http2;
  EXPECT_EQ(defaults.keepalive, 2h);
  EXPECT_EQ(defaults.age_max, 0s);
  EXPECT_EQ(defaults.ping_strikes_max, 2U);
  EXPECT_NE(refusal_of(parse({"--h2-keepalive-timeout", "0s"}))
                .find("--h2-keepalive-timeout 0s: must be a time from 1ms to 24h"),
            std::string::npos);
}

TEST(config_sources, a_bad_value_is_told_as_a_flags_with_its_source) {
  const file text("workers = 0\n");
  const std::string in_file = "bwos-server: --workers 0: must be a number from 1 to 1024 (";
  EXPECT_EQ(refusal_of(parse({"--config", text.path()})), in_file + text.path() + ")\n");
  EXPECT_EQ(refusal_of(parse({"--config", text.path(), "--workers", "x"})),
            "bwos-server: --workers x: must be a number from 1 to 1024\n");
  const variable pin("BWOS_PIN", "yes");
  EXPECT_EQ(refusal_of(parse({})), "bwos-server: --pin yes: must be true or false (BWOS_PIN)\n");
  for (const char* value : {"", "--pin", "-1", "two", "1 2"}) {
    const variable workers("BWOS_WORKERS", value);
    EXPECT_NE(refusal_of(parse({})).find("1 to 1024 (BWOS_WORKERS)"), std::string::npos) << value;
  }
  const file together("reactor-group = 2\n");
  EXPECT_NE(refusal_of(parse({"--config", together.path(), "--reactor", "io_uring", "--pin"}))
                .find("--reactor-group 2: must be 1"),
            std::string::npos);
}

TEST(config_sources, an_empty_value_is_none_or_told_as_a_flags) {
  const variable pin("BWOS_PIN", "");
  EXPECT_EQ(refusal_of(parse({})), "bwos-server: --pin '': must be true or false (BWOS_PIN)\n");
  EXPECT_TRUE(accepted(parse({"--pin"})).pin);
  const file text("pin = \"\"\n");
  EXPECT_FALSE(accepted(parse({"--config", text.path(), "--pin=false"})).pin);
  int switches = 0;
  for (const std::string& flag : flags_of_help()) {
    if (flag == "--help" || flag == "--version" || flag == "--config") continue;
    const std::string entry = flag.substr(2);
    const variable none("BWOS_PIN", "false");
    const file empty(entry + " = \"\"\n");
    const parsed result = parse({"--config", empty.path(), "--http-listen", "127.0.0.1:1"});
    if (flag == "--http-listen" || flag == "--pin" || result.line.exit_code == std::nullopt)
      continue;  // given again, or one that may be empty
    const std::string refusal = refusal_of(result);
    EXPECT_TRUE(refusal.starts_with("bwos-server: " + flag + " '': must be ")) << refusal;
    EXPECT_TRUE(refusal.ends_with(std::string(" (") + empty.path() + ")\n")) << refusal;
    if (refusal.find("must be true or false") != std::string::npos) ++switches;
  }
  EXPECT_EQ(switches, 2);  // and --pin
}

TEST(config_sources, what_the_executor_would_ignore_is_a_mistake_where_it_was_given) {
  struct ignored {
    std::string executor;
    const char* flag;
    const char* value;
  };
  const std::vector<ignored> all = {{"asio-pool", "--reactor-group", "1"},
                                    {"asio-pool", "--steal", "random"},
                                    {"asio-pool", "--pin", "true"},
                                    {"asio-pool", "--lane-threshold-us", "0"},
                                    {"asio-pool", "--lane-age", "1ms"},
                                    {"asio-pool", "--stall-timeout", "10s"},
                                    {"asio-pool", "--queue-age-max", "50ms"},
                                    {"asio-io-context", "--reactor", "epoll"},
                                    {"asio-io-context", "--reactor-group", "1"},
                                    {"asio-io-context", "--reactor-threads", "0"},
                                    {"asio-io-context", "--steal", "random"},
                                    {"asio-io-context", "--pin", "true"},
                                    {"asio-io-context", "--lane-threshold-us", "5"},
                                    {"asio-io-context", "--lane-age", "1ms"},
                                    {"asio-io-context", "--stall-timeout", "10s"},
                                    {"asio-io-context", "--queue-age-max", "50ms"}};
  for (const auto& [executor, flag, value] : all) {
    const std::string chosen = "--executor=" + executor;
    const std::string told = std::string("bwos-server: ") + flag + " " + value +
                             ": must be left out with --executor " + executor + ": ";
    std::vector<const char*> given = {flag, value};
    if (std::string_view(flag) == "--pin") given.pop_back();
    EXPECT_EQ(parse(given).line.exit_code, std::nullopt) << flag;
    given.push_back(chosen.c_str());
    EXPECT_TRUE(refusal_of(parse(given)).starts_with(told)) << refusal_of(parse(given));
    const file text(std::string(flag).substr(2) + " = " + value + "\n");
    const std::string in_file = refusal_of(parse({"--config", text.path(), chosen.c_str()}));
    EXPECT_TRUE(in_file.starts_with(told)) << in_file;
    EXPECT_TRUE(in_file.ends_with(std::string(" (") + text.path() + ")\n")) << in_file;
  }
  const variable executor("BWOS_EXECUTOR", "asio-pool");
  const variable age("BWOS_LANE_AGE", "1ms");
  EXPECT_NE(refusal_of(parse({})).find("(BWOS_LANE_AGE)"), std::string::npos);
}

TEST(config_sources, a_lane_of_asios_has_no_age_and_is_an_io_contexts) {
  EXPECT_NE(refusal_of(parse({"--executor", "asio-io-context", "--asio-lane", "--lane-age", "1ms"}))
                .find("--lane-age 1ms: must be left out"),
            std::string::npos);
  EXPECT_NE(refusal_of(parse({"--asio-lane"})).find("--asio-lane true: must be left out without"),
            std::string::npos);
}

TEST(config_sources, reactor_threads_of_their_own_have_no_groups_and_asio_needs_one) {
  EXPECT_NE(refusal_of(parse({"--reactor-threads", "1", "--reactor-group", "1"}))
                .find("--reactor-group 1: must be left out with --reactor-threads"),
            std::string::npos);
  EXPECT_EQ(parse({"--reactor-threads", "0", "--reactor-group", "1"}).line.exit_code, std::nullopt);
  const variable none("BWOS_REACTOR_THREADS", "0");
  EXPECT_EQ(refusal_of(parse({"--executor", "asio-pool"})),
            "bwos-server: --reactor-threads 0: must be 1 or more with --executor asio-pool, whose "
            "threads wait for no sockets (BWOS_REACTOR_THREADS)\n");
  EXPECT_NE(refusal_of(parse({"--reactor-threads", "65"})).find("0 to 64"), std::string::npos);
  EXPECT_NE(refusal_of(parse({"--executor", "asio"})).find("bwos|asio-pool"), std::string::npos);
}

TEST(config_sources, entries_that_are_no_flags_are_named) {
  for (const char* name : {"worker", "Workers", "server.workers", "config", "help", "version", "h",
                           "hello world", "--workers"}) {
    const file text(std::string(name) + " = 3\n");
    const std::string refusal = refusal_of(parse({"--config", text.path()}));
    EXPECT_NE(refusal.find(std::string("'") + name + "' is no flag's name"), std::string::npos)
        << refusal;
  }
  for (const char* lines : {"[server]\nworkers = 3\n", "[server]\n", "[[server]]\n"}) {
    const file text(lines);
    const std::string refusal = refusal_of(parse({"--config", text.path()}));
    EXPECT_NE(refusal.find("'[server]'"), std::string::npos) << refusal;
  }
  for (const char* lines :
       {"workers = [1, 2]\n", "workers = 1 2\n", "workers = 1\nworkers = 2\n"}) {
    const file text(lines);
    const std::string refusal = refusal_of(parse({"--config", text.path()}));
    EXPECT_NE(refusal.find("'workers' must have one value"), std::string::npos) << refusal;
  }
}

TEST(config_sources, a_file_that_cannot_be_read_is_named) {
  EXPECT_NE(refusal_of(parse({"--config", "/nowhere"})).find("--config /nowhere: No such file"),
            std::string::npos);
  EXPECT_NE(refusal_of(parse({"--config", "/"})).find("--config /: Is a directory"),
            std::string::npos);
  EXPECT_NE(refusal_of(parse({"--config", "/dev/zero"})).find("--config /dev/zero: must have at "),
            std::string::npos);
  EXPECT_NE(refusal_of(parse({"--config"})).find("--config"), std::string::npos);
  EXPECT_EQ(parse({"--config", "/nowhere", "--help"}).line.exit_code, 0);
  EXPECT_EQ(parse({"--config", "/nowhere", "--version"}).line.exit_code, 0);
}

}  // namespace
}  // namespace bwos::server
