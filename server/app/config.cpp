// SPDX-License-Identifier: Apache-2.0
#include "app/config.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>
#include <functional>
#include <stdexcept>
#include <string_view>
#include <utility>
#include <vector>

#include "app/config_sources.hpp"
#include "base/units.hpp"
#include "http/h2/flood_limits.hpp"
#include "net/memory_budget.hpp"
#include "net/queue_age.hpp"

namespace bwos::server {
namespace {

/// A flag with a value that it cannot have; what() is the line for the user.
struct bad_value : std::runtime_error {
  bad_value(std::string named, const std::string& value, const std::string& valid)
      : std::runtime_error(named + " " + (value.empty() ? "''" : value) + ": must be " + valid),
        flag(std::move(named)) {}
  std::string flag;
};

/// Flags of one group of --help. Each reads its own text, so that every mistake is told in the same
/// form.
class group {
 public:
  group(CLI::App& app, std::string name) : app_(app), name_(std::move(name)) {}

  template <class Number>
  void number(const std::string& flag, Number& to, std::uint64_t least, std::uint64_t most,
              const std::string& meaning, std::string shown = {}) {
    if (shown.empty()) shown = std::to_string(to);
    const std::string valid =
        "a number from " + std::to_string(least) + " to " + std::to_string(most);
    add(flag, "N", meaning, shown, valid, [&to, least, most](const std::string& text) {
      const auto value = parse_number(text);
      return value && *value >= least && *value <= most && (to = static_cast<Number>(*value), true);
    });
  }

  void bytes(const std::string& flag, std::size_t& to, std::uint64_t least, std::uint64_t most,
             const std::string& meaning, std::string shown = {}) {
    if (shown.empty()) shown = format_bytes(to);
    const std::string valid =
        "a size from " + format_bytes(least) + " to " + format_bytes(most) + " (B, KiB, MiB, GiB)";
    add(flag, "SIZE", meaning, shown, valid, [&to, least, most](const std::string& text) {
      const auto value = parse_bytes(text);
      return value && *value >= least && *value <= most && (to = *value, true);
    });
  }

  void duration(const std::string& flag, std::chrono::microseconds& to,
                std::chrono::microseconds least, std::chrono::microseconds most,
                const std::string& meaning) {
    const std::string valid = "a time from " + format_duration(least) + " to " +
                              format_duration(most) + " with its unit (us, ms, s, m, h)";
    add(flag, "TIME", meaning, format_duration(to), valid,
        [&to, least, most](const std::string& text) {
          const auto value = parse_duration(text);
          return value && *value >= least && *value <= most && (to = *value, true);
        });
  }

  void address(const std::string& flag, std::string& to, const std::string& meaning) {
    const std::string valid =
        "ADDRESS:PORT such as 127.0.0.1:8080 or [::]:0, port 0 to 65535, or '' for none";
    add(flag, "ADDRESS:PORT", meaning, to, valid, [&to](const std::string& text) {
      return (text.empty() || is_host_port(text)) && (to = text, true);
    });
  }

  template <class Value>
  void choice(const std::string& flag, Value& to, std::vector<std::pair<std::string, Value>> names,
              const std::string& meaning) {
    std::string valid;
    std::string shown;
    for (const auto& [name, value] : names) {
      valid += valid.empty() ? name : "|" + name;
      if (value == to) shown = name;
    }
    add(flag, valid, meaning, shown, valid,
        [&to, names = std::move(names)](const std::string& text) {
          const auto found = std::find_if(names.begin(), names.end(),
                                          [&](const auto& one) { return one.first == text; });
          return found != names.end() && (to = found->second, true);
        });
  }

  void file(const std::string& flag, std::string& to, const std::string& meaning) {
    add(flag, "FILE", meaning, to.empty() ? "''" : to, "a path, - for stdout, or '' for none",
        [&to](const std::string& text) {
          to = text;
          return true;
        });
  }

  void toggle(const std::string& flag, bool& to, const std::string& meaning) {
    const auto read = [&to](const std::string& text) {
      to = text == "true";
      return to || text == "false";
    };
    add(flag, "", meaning, to ? "true" : "false", "true or false", read)->expected(0);
  }

 private:
  CLI::Option* add(const std::string& flag, const std::string& type, const std::string& meaning,
                   const std::string& shown, const std::string& valid,
                   std::function<bool(const std::string&)> read) {
    const std::string range = valid == type ? "" : "; " + valid;
    return app_
        .add_option_function<std::string>(
            flag,
            [flag, valid, read = std::move(read)](const std::string& text) {
              if (!read(text)) throw bad_value(flag, text, valid);
            },
            meaning + " [" + shown + range + "]")
        ->type_name(type)
        ->take_last()
        ->group(name_);
  }

  CLI::App& app_;
  std::string name_;
};

void add_flags(CLI::App& app, config& to) {
  using namespace std::chrono_literals;
  group listening(app, "Listening");
  listening.address("--http-listen", to.http_listen,
                    "HTTP/1.1, HTTP/2 by prior knowledge, and native gRPC. An inherited socket "
                    "named http (LISTEN_FDNAMES, see sd_listen_fds(3)) takes its place");
  listening.address("--grpc-listen", to.grpc_listen,
                    "gRPC alone; if native, it may be the HTTP address, and an inherited socket "
                    "named grpc takes its place");
  listening.choice<grpc_kind>("--grpc", to.grpc_by,
                              {{"native", grpc_kind::native}, {"grpc++", grpc_kind::cpp}},
                              "Who serves it: we, on the executor's sockets, or gRPC C++ on its "
                              "own, which it is always with "
                              "--executor asio-io-context");
  listening.number("--backlog", to.backlog, 1, 65535,
                   "Connections that wait to be accepted; an inherited socket has its own");
  listening.number(
      "--connections-max", to.connections_max, 1, 1'000'000,
      "HTTP connections at once, and as many again of native gRPC on a port of its own; no more "
      "than the descriptors allow, of which two ports get half each. Above, the longest idle makes "
      "room; where none is, HTTP gets 503, and gRPC is closed",
      "what the descriptors allow, at most 65536");
  listening.number(
      "--connections-per-address-max", to.connections_per_address_max, 0, 1'000'000,
      "Connections of one peer's address at once, of HTTP and native gRPC together; of "
      "IPv6, of its /64; above, HTTP gets 503 and a port of gRPC alone closes: nobody makes "
      "room. Not behind a proxy, whose address is everybody's; 0: off");
  listening.bytes("--socket-unsent-bytes-max", to.socket_unsent_bytes_max, 0, 1 << 30,
                  "What the kernel keeps of a connection's answers beyond what is on its way to "
                  "the peer (TCP_NOTSENT_LOWAT); 0: its own default");
  listening.bytes(
      "--socket-unread-bytes-max", to.socket_unread_bytes_max, 0, 1 << 30,
      "What the kernel keeps of a connection's requests that are not read yet, and so "
      "the peer's window (SO_RCVBUF, at most net.core.rmem_max). For cgroups of version "
      "2, whose limits count it; bodies of a mebibyte cost more. 0: its own default");

  group memory(app, "Memory");
  memory.bytes(
      "--memory-max", to.memory_max, 32 << 20, std::uint64_t{1} << 50,
      "Memory that all peers together can make us keep: bodies, messages, headers, answers "
      "that are not sent; above three quarters of it large bodies are refused and the "
      "largest connections are reset; above: 503, RESOURCE_EXHAUSTED. At least 256KiB for each "
      "worker",
      "60 % of the cgroup's limit, or of the machine's memory");

  group workers(app, "Workers");
  workers.choice<executor_kind>(
      "--executor", to.executor,
      {{"bwos", executor_kind::bwos},
       {"asio-pool", executor_kind::asio_pool},
       {"asio-io-context", executor_kind::asio_io_context}},
      "Who runs handlers: our pool, asio::thread_pool behind dedicated reactor threads, or "
      "asio::io_context with its own sockets");
  workers.number("--workers", to.workers, 1, options::workers_max, "Threads that run handlers");
  workers.number("--reactor-threads", to.reactor_threads, 0, options::reactor_threads_max,
                 "Threads that only wait for sockets; 0: the workers do",
                 "0, but 1 with --executor asio-pool");
  workers.number("--reactor-group", to.reactor_group, 1, options::workers_max,
                 "Workers that share one epoll set; 1 with io_uring", "8, or all workers if fewer");
  workers.choice<reactor_kind>(
      "--reactor", to.reactor,
      {{"auto", reactor_kind::automatic},
       {"io_uring", reactor_kind::io_uring},
       {"epoll", reactor_kind::epoll}},
      "Where sockets are polled; auto is epoll, whose readiness idle workers can share");
  std::vector<std::pair<std::string, steal_kind>> victims;
  for (const steal_kind kind :
       {steal_kind::random, steal_kind::none, steal_kind::sequential, steal_kind::last_victim,
        steal_kind::best_of_two, steal_kind::best_of_many, steal_kind::topology}) {
    victims.emplace_back(name_of(kind), kind);
  }
  workers.choice<steal_kind>("--steal", to.steal, std::move(victims),
                             "Whose work an idle worker takes first; topology, that of the nearest "
                             "CPUs, is for --pin");
  workers.toggle("--pin", to.pin, "Pin each worker to a CPU");
  workers.toggle("--asio-lane", to.asio_lane,
                 "With --executor asio-io-context: routes that are long by --lane-threshold-us run "
                 "on a second asio::thread_pool, of one thread less, but at least one");
  workers.number(
      "--lane-threshold-us", to.lane_threshold_us, 0, 1'000'000,
      "Requests of a route, and calls of a unary method of native gRPC, that take longer on "
      "average, in us, wait for a worker that has nothing else to do; 0: all run as they come",
      "50, but 0 with asio-pool, with asio-io-context without --asio-lane, and where several "
      "workers have reactors of their own");
  workers.duration(
      "--lane-age", to.lane_age, 1us, 10s,
      "How long such a request waits before it is run first; after an eighth of it no worker "
      "is kept free of them");

  group limits(app, "HTTP limits");
  limits.bytes("--header-bytes-max", to.http.header_bytes_max, 64, 1 << 20,
               "Request line and header; above: 431, 414 if the line alone is");
  limits.bytes("--body-bytes-max", to.http.body_bytes_max, 0, 1 << 30, "Body; above: 413");
  limits.number("--pipeline-max", to.http.pipeline_max, 1, 65536,
                "Pipelined requests answered in one turn");
  limits.number("--work-us-max", to.work_us_max, 0, 60'000'000,
                "Most that /work?us=N burns, in us; 0: no /work");

  limits.duration(
      "--queue-age-max", to.queue_age_max, 0ms, 1min,
      "Requests that come while others have waited longer for a worker get 503, but for "
      "/healthz, /readyz and /metrics, calls of native gRPC UNAVAILABLE; 5 ms at least; 0: none "
      "does");

  group grpc(app, "gRPC limits");
  grpc.bytes("--grpc-message-bytes-max", to.grpc.message_bytes_max, 1, 1 << 30, "Request message");
  grpc.number("--grpc-streams-max", to.grpc.streams_max, 1, 65535,
              "Calls, or HTTP/2 requests, at once on one connection");
  grpc.number(
      "--grpc-handlers-max", to.http2.handlers_max, 1, 1'000'000,
      "Native: handlers that wait for something, or for a worker, of one connection; above: "
      "REFUSED_STREAM");
  grpc.toggle("--grpc-test-service", to.grpc_test_service,
              "Serve grpc.testing.TestService and connectrpc.conformance.v1.ConformanceService, "
              "which tests of other projects call, too");
  grpc.number("--grpc-threads", to.grpc.queue_threads, 1, 64,
              "--grpc grpc++: completion queues, each with a polling thread");
  grpc.number("--grpc-armed", to.grpc.calls_armed, 1, 65536,
              "--grpc grpc++: calls in hand at once for each completion queue");

  group http2(app, "HTTP/2 limits, of HTTP and native gRPC");
  http2.bytes(
      "--h2-header-bytes-max", to.http2.header_bytes_max, 256, 1 << 20,
      "Fields of a request, each with 32 bytes more; above: 431, of gRPC RESOURCE_EXHAUSTED");
  http2.bytes("--h2-output-bytes-max", to.http2.output_bytes_max, 1024, 1 << 30,
              "Answers that wait for the peer to take them; above: REFUSED_STREAM");
  http2.bytes(
      "--h2-request-bytes-max", to.http2.request_bytes_max, 1 << 20, std::size_t{1} << 36,
      "Requests of a connection in memory beyond its window of 16 MiB: unfinished messages (above: "
      "REFUSED_STREAM), and expanded ones until their handlers end (above: RESOURCE_EXHAUSTED)");
  http2.number("--h2-inflate-ratio-max", to.calls.inflate_ratio_max, 0, 1'000'000,
               "A compressed message becomes at most so many times as large; above: "
               "RESOURCE_EXHAUSTED; 0: as large as a message may be");
  http2.number("--h2-acks-max", to.http2.acks_max, 1,
               static_cast<std::uint64_t>(h2::idle_frames_burst),
               "Acknowledgements that wait likewise; above: the connection ends");
  http2.bytes("--h2-write-rate-min", to.http2.write_rate_min, 0, 1 << 20,
              "Of an answer that waits for its peer's windows, a second on average over "
              "--write-timeout; below: reset; 0: any byte is enough");
  http2.number("--h2-ping-strikes-max", to.http2.ping_strikes_max, 0, 1'000'000,
               "PINGs of a gRPC peer that come too soon, and no answer between; above: GOAWAY "
               "too_many_pings; 0: as many as it likes");
  http2.duration("--h2-ping-interval-min", to.http2.ping_interval_min, 0ms, 24h,
                 "Too soon after another, for a peer with streams; without: 2h");

  group timeouts(app, "Timeouts");
  timeouts.duration("--idle-timeout", to.http.idle_timeout, 1ms, 24h,
                    "HTTP connection without a request");
  timeouts.duration("--header-timeout", to.http.header_timeout, 1ms, 24h,
                    "A request's header, from its first byte");
  timeouts.duration("--body-timeout", to.http.body_timeout, 1ms, 24h, "A request's body");
  timeouts.duration("--write-timeout", to.http.write_timeout, 1ms, 24h,
                    "A peer that does not read its answers");
  timeouts.duration("--h2-handshake-timeout", to.http2.handshake_timeout, 1ms, 24h,
                    "An HTTP/2 peer's preface and SETTINGS");
  timeouts.duration("--h2-header-timeout", to.http2.header_timeout, 1ms, 24h,
                    "A header in HTTP/2, from its first frame");
  timeouts.duration("--h2-idle-timeout", to.http2.idle_timeout, 1ms, 24h,
                    "HTTP/2 connection without a stream: GOAWAY");
  timeouts.duration("--h2-keepalive", to.http2.keepalive, 0ms, 24h,
                    "HTTP/2 peer of which nothing is heard: PING; 0: none");
  timeouts.duration("--h2-keepalive-timeout", to.http2.keepalive_timeout, 1ms, 24h,
                    "Then, if still nothing is: the connection ends");
  timeouts.duration("--h2-age-max", to.http2.age_max, 0ms, 24h,
                    "HTTP/2 connection, 10 % more or less: GOAWAY; 0: never");
  timeouts.duration("--h2-age-grace", to.http2.age_grace, 0ms, 24h,
                    "Then: its streams may take so long; 0: as long as they do");
  timeouts.duration("--stall-timeout", to.stall_timeout, 0ms, 24h,
                    "/healthz fails while a worker is inside one task for longer; 0: never");
  timeouts.duration("--drain-delay", to.drain_delay, 0ms, 24h,
                    "SIGTERM or SIGINT: not ready, but still accepting, for so long");
  timeouts.duration("--drain-idle", to.http.drain_idle, 0ms, 24h,
                    "Then: an HTTP connection without a request ends");
  timeouts.duration("--drain-timeout", to.drain_timeout, 0ms, 24h,
                    "Then: what runs may take so long; a handler that computes is waited for yet");

  group logging(app, "Logging");
  std::vector<std::pair<std::string, std::string>> levels;
  for (const char* level : {"info", "warn", "off"}) levels.emplace_back(level, level);
  logging.choice<std::string>("--log-level", to.log_level, std::move(levels),
                              "What goes to stderr");
  logging.choice<log_format>("--log-format", to.log_format,
                             {{"text", log_format::text}, {"json", log_format::json}},
                             "How; json is an object a line");
  logging.file(
      "--access-log", to.access_log.file,
      "A line of JSON for each answer of HTTP and of native gRPC is appended to it; SIGHUP "
      "opens it anew");
  logging.number("--access-log-sample", to.access_log.sample, 1, 1'000'000,
                 "... for one of so many answers of each worker");
  logging.bytes("--access-log-buffer", to.access_log.buffer_bytes_max, 4096, 1 << 30,
                "Of each worker, lines that wait to be written; above: dropped, and counted");
}

/// A timer that goes off on time is up to 2 ms late, one in a busy process a little more.
constexpr std::chrono::milliseconds queue_age_least{5};

/// Flags that the chosen executor would ignore are mistakes where they were given.
class refusal {
 public:
  refusal(const CLI::App& app, std::string chosen) : app_(app), chosen_(std::move(chosen)) {}
  void operator()(const char* flag, const char* why) const {
    const CLI::Option* const given = app_.get_option(flag);
    if (given->count() == 0) return;
    throw bad_value(flag, given->results().back(), "left out with " + chosen_ + ": " + why);
  }

 private:
  const CLI::App& app_;
  const std::string chosen_;
};

void refuse_what_is_ignored(const CLI::App& app, const config& parsed) {
  if (parsed.executor == executor_kind::asio_pool) {
    const refusal refuse(app, "--executor asio-pool");
    refuse("--reactor-group", "each reactor thread has a set or ring of its own");
    refuse("--steal", "its threads share one queue");
    refuse("--pin", "its threads are Asio's");
    refuse("--lane-threshold-us", "it has no lane");
    refuse("--lane-age", "it has no lane");
    refuse("--stall-timeout", "its threads do not tell when they turn");
    refuse("--queue-age-max", "nobody measures how old its queue is");
  } else if (parsed.executor == executor_kind::asio_io_context) {
    const refusal refuse(app, "--executor asio-io-context");
    refuse("--reactor-threads", "its threads wait for sockets");
    refuse("--reactor-group", "its threads share Asio's epoll set");
    refuse("--reactor", "its sockets are Asio's");
    refuse("--steal", "its threads share one queue");
    refuse("--pin", "its threads are Asio's");
    refuse("--lane-age", "no lane of its has one");
    refuse("--stall-timeout", "its threads do not tell when they turn");
    refuse("--queue-age-max", "nobody measures how old its queue is");
    if (!parsed.asio_lane) refuse("--lane-threshold-us", "it has a lane with --asio-lane only");
  } else if (parsed.reactor_threads > 0) {
    const refusal refuse(app, "--reactor-threads");
    refuse("--reactor-group", "each reactor thread has a set or ring of its own");
  }
}

void refuse_what_grpc_ignores(const CLI::App& app, const config& parsed) {
  if (parsed.grpc_by == grpc_kind::native) {
    const refusal refuse(app, "--grpc native");
    refuse("--grpc-threads", "it has no completion queues");
    refuse("--grpc-armed", "it has no completion queues");
    return;
  }
  const refusal refuse(app, "--grpc grpc++");
  refuse("--grpc-handlers-max", "its connections are gRPC's");
  refuse("--h2-inflate-ratio-max", "gRPC C++ expands messages itself");
}

/// Flags of what another flag has turned off.
void refuse_what_is_off(const CLI::App& app, const config& parsed) {
  if (parsed.lane_threshold_us == 0) {
    const refusal refuse(app, "--lane-threshold-us 0");
    refuse("--lane-age", "no request waits in the lane");
    if (parsed.asio_lane) refuse("--asio-lane", "no request goes through the lane");
  }
  if (parsed.http2.keepalive.count() == 0) {
    const refusal refuse(app, "--h2-keepalive 0");
    refuse("--h2-keepalive-timeout", "no PING is sent");
  }
  if (parsed.http2.age_max.count() == 0) {
    const refusal refuse(app, "--h2-age-max 0");
    refuse("--h2-age-grace", "no connection is too old");
  }
}

/// Who serves gRPC, where that was not said.
void choose_grpc(const CLI::App& app, config& to) {
  const bool ours = to.executor != executor_kind::asio_io_context;
  if (app.get_option("--grpc")->count() == 0)
    to.grpc_by = ours ? grpc_kind::native : grpc_kind::cpp;
}

/// What no single flag can see.
void check_together(const CLI::App& app, const config& parsed) {
  refuse_what_is_ignored(app, parsed);
  refuse_what_grpc_ignores(app, parsed);
  if (parsed.grpc_by == grpc_kind::native && parsed.executor == executor_kind::asio_io_context) {
    throw bad_value(
        "--grpc", "native",
        "grpc++ with --executor asio-io-context: its sockets are Asio's, and native gRPC "
        "runs on ours");
  }
  if (parsed.asio_lane && parsed.executor != executor_kind::asio_io_context) {
    throw bad_value("--asio-lane", "true", "left out without --executor asio-io-context");
  }
  if (parsed.executor == executor_kind::asio_pool && parsed.reactor_threads == 0) {
    throw bad_value("--reactor-threads", "0",
                    "1 or more with --executor asio-pool, whose threads wait for no sockets");
  }
  if (parsed.reactor == reactor_kind::io_uring && parsed.reactor_group > 1) {
    throw bad_value("--reactor-group", std::to_string(parsed.reactor_group),
                    "1 with --reactor io_uring: a ring belongs to one worker");
  }
  refuse_what_is_off(app, parsed);
  if (parsed.access_log.file.empty()) {
    const refusal refuse(app, "no --access-log");
    refuse("--access-log-sample", "there is none");
    refuse("--access-log-buffer", "there is none");
  }
  if (parsed.queue_age_max.count() != 0 && parsed.queue_age_max < queue_age_least) {
    throw bad_value("--queue-age-max", format_duration(parsed.queue_age_max),
                    "0, or a time from " + format_duration(queue_age_least) +
                        " to 1m: it is measured in milliseconds");
  }
  // What threads have not summed yet may be half of it.
  const std::size_t memory_least = 2 * memory_budget::unsummed_max * std::size_t{parsed.workers};
  if (parsed.memory_max != 0 && parsed.memory_max < memory_least) {
    throw bad_value("--memory-max", format_bytes(parsed.memory_max),
                    format_bytes(memory_least) + " or more with --workers " +
                        std::to_string(parsed.workers) + ", 256KiB for each");
  }
  if (parsed.http_listen.empty() && parsed.grpc_listen.empty()) {
    throw bad_value("--http-listen", "",
                    "ADDRESS:PORT if --grpc-listen is '': nothing would listen");
  }
}

constexpr const char* other_group = "Other";  // --help and the like: not for files and variables

void add_other_flags(CLI::App& app) {
  app.set_help_flag("-h,--help", "Print this and leave")->group(other_group);
  app.set_version_flag("--version", std::string("bwos-server ") + version() + " (" + build() + ")",
                       "Print version and build and leave")
      ->group(other_group);
  app.add_option("--config", "File of entries such as drain-delay = 5s (TOML or INI, no sections)")
      ->type_name("FILE")
      ->take_last()
      ->group(other_group);
  app.footer(
      "Each flag --a-b can also be given as environment variable BWOS_A_B or as entry a-b of the "
      "--config file.\nA flag goes over the variable, the variable over the file.");
}

std::vector<std::string> settable_flags(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* const flag : app.get_options()) {
    if (flag->get_group() != other_group) names.push_back(flag->get_name());
  }
  return names;
}

/// CLI11 would take the next word for the value of "--flag=". Throws CLI::ArgumentMismatch.
void refuse_lacking_values(const CLI::App& app, int argc, const char* const* argv) {
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (!word.starts_with("--") || word.find('=') != word.size() - 1) continue;
    const std::string flag(word.substr(0, word.size() - 1));
    const CLI::Option* const found = app.get_option_no_throw(flag);
    if (found == nullptr) continue;
    const std::string type = found->get_type_name();
    throw CLI::ArgumentMismatch(flag + ": no " + (type.empty() ? "value" : type) + " behind '='");
  }
}

/// What the file and the environment say, the latter behind; nothing if only help or version are
/// asked for. The command line is looked through for --config alone: its mistakes are told later.
std::vector<given_value> given_elsewhere(const CLI::App& app, int argc, const char* const* argv) {
  CLI::App finder;
  finder.set_help_flag();
  finder.allow_extras();
  bool asked = false;
  std::string file;
  finder.add_flag("-h,--help,--version", asked);
  const CLI::Option* const config = finder.add_option("--config", file)->take_last();
  try {
    finder.parse(argc, argv);
  } catch (const CLI::ParseError&) {
    return {};
  }
  if (asked) return {};
  const char* const variable = std::getenv(variable_of("--config").c_str());
  if (config->count() == 0 && variable != nullptr) file = variable;

  const std::vector<std::string> flags = settable_flags(app);
  std::vector<given_value> found;
  if (!file.empty()) found = values_in_file(file, flags);
  for (given_value& each : values_in_environment(flags)) found.push_back(std::move(each));
  return found;
}

/// The last value of a flag decides, so the sources follow each other in the order of their weight.
void parse_all(CLI::App& app, const std::vector<given_value>& elsewhere, int argc,
               const char* const* argv) {
  std::vector<std::string> arguments;
  for (const given_value& each : elsewhere)
    each.append_to(arguments, app.get_option(each.flag)->get_expected_max() == 0);
  arguments.insert(arguments.end(), argv + 1, argv + argc);
  std::reverse(arguments.begin(), arguments.end());  // as CLI11 wants it
  app.parse(std::move(arguments));
}

/// " (BWOS_WORKERS)" where a flag's value did not come from the command line.
std::string source_of(const std::string& flag, const CLI::App& app,
                      const std::vector<given_value>& elsewhere) {
  std::string last;
  std::size_t count = 0;
  for (const given_value& each : elsewhere) {
    if (each.flag != flag) continue;
    last = " (" + each.source + ")";
    ++count;
  }
  return app.get_option(flag)->count() == count ? last : "";
}

}  // namespace

options config::pool_options() const {
  options result;
  result.workers = workers;
  result.reactor = reactor;
  result.steal = steal;
  result.pin = pin;
  const int dedicated = executor == executor_kind::asio_pool ? 1 : 0;
  result.reactor_threads = static_cast<unsigned>(reactor_threads < 0 ? dedicated : reactor_threads);
  result.lane_age = lane_age;
  result.queue_age_interval = queue_age_bound::interval(queue_age_max);
  if (reactor_group > 0) {
    result.reactor_group = reactor_group;
  } else {
    result.reactor_group =
        reactor == reactor_kind::io_uring ? 1 : std::min(result.reactor_group, workers);
  }
  return result;
}

std::chrono::microseconds config::lane_threshold() const {
  if (lane_threshold_us >= 0) return std::chrono::microseconds(lane_threshold_us);
  if (executor == executor_kind::asio_pool) return {};
  if (executor == executor_kind::asio_io_context)
    return std::chrono::microseconds(asio_lane ? 50 : 0);
  const options pool = pool_options();
  const bool shared = workers == 1 || pool.reactor_group > 1 || pool.reactor_threads > 0;
  return std::chrono::microseconds(shared ? 50 : 0);
}

command_line_parser::command_line_parser()
    : app_(std::make_unique<CLI::App>("HTTP and gRPC on a work-stealing runtime of BWoS queues",
                                      "bwos-server")) {
  add_flags(*app_, settings_);
  add_other_flags(*app_);
}

command_line_parser::~command_line_parser() = default;

command_line command_line_parser::parse(int argc, const char* const* argv, std::ostream& out,
                                        std::ostream& err) {
  settings_ = defaults_;
  CLI::App& app = *app_;
  command_line result{.settings = defaults_, .exit_code = {}};
  std::vector<given_value> elsewhere;
  try {
    refuse_lacking_values(app, argc, argv);
    elsewhere = given_elsewhere(app, argc, argv);
    parse_all(app, elsewhere, argc, argv);
    choose_grpc(app, settings_);
    check_together(app, settings_);
    settings_.grpc.address = settings_.grpc_listen;
    settings_.calls.message_bytes_max = settings_.grpc.message_bytes_max;
    settings_.http2.streams_max = settings_.grpc.streams_max;
    settings_.http2.body_timeout = settings_.http.body_timeout;
    settings_.http2.write_timeout = settings_.http.write_timeout;
    result.settings = settings_;
  } catch (const CLI::Success& asked) {
    app.exit(asked, out, err);
    result.exit_code = 0;
  } catch (const CLI::ArgumentMismatch& error) {  // a value too few, or too many for a switch
    std::string what = error.what();
    if (!what.starts_with("-")) what.insert(0, "--");
    const CLI::Option* const flag =
        app.get_option_no_throw(what.substr(0, what.find_first_of(": ")));
    err << "bwos-server: " << what << "; " << (flag ? flag->get_description() : "") << "\n";
    result.exit_code = 2;
  } catch (const CLI::ParseError& error) {
    err << "bwos-server: " << error.what() << " (see --help)\n";
    result.exit_code = 2;
  } catch (const bad_value& error) {
    err << "bwos-server: " << error.what() << source_of(error.flag, app, elsewhere) << "\n";
    result.exit_code = 2;
  } catch (const bad_file& error) {
    err << "bwos-server: " << error.what() << "\n";
    result.exit_code = 2;
  }
  return result;
}

command_line parse_command_line(int argc, const char* const* argv, std::ostream& out,
                                std::ostream& err) {
  return command_line_parser().parse(argc, argv, out, err);
}

std::string_view name_of(executor_kind kind) noexcept {
  switch (kind) {
    case executor_kind::bwos:
      return "bwos";
    case executor_kind::asio_pool:
      return "asio-pool";
    case executor_kind::asio_io_context:
      return "asio-io-context";
  }
  return "bwos";
}

}  // namespace bwos::server
