// SPDX-License-Identifier: Apache-2.0
#include "ops/lifecycle.hpp"

#include <spdlog/spdlog.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <fstream>
#include <iterator>
#include <system_error>
#include <thread>
#include <utility>

#include "grpc/native_server.hpp"
#include "net/limits.hpp"
#include "net/socket_bytes.hpp"
#include "ops/exposition.hpp"
#include "ops/memory_limit.hpp"
#include "ops/operational_routes.hpp"

namespace bwos::server {
namespace {

using clock = std::chrono::steady_clock;

constexpr std::size_t connections_default_max = 65536;
/// For the access log's last lines, where a second signal ends the process. A guess: longer than a
/// pipe that nobody reads is asked, shorter than anybody waits before the next signal is SIGKILL.
constexpr std::chrono::milliseconds last_lines{1000};

std::size_t descriptor_limit() noexcept {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return 1024;
  return limit.rlim_cur;
}

/// On each of `ports` whose connections are ours: more would wait without an answer for descriptors
/// that others give back.
std::size_t connections_max(const server_settings& settings, std::size_t ports) noexcept {
  const std::size_t limit = descriptor_limit();
  const std::size_t free =
      limit > 2 * descriptors_reserved ? limit - descriptors_reserved : limit / 2;
  return std::min(free / std::max<std::size_t>(ports, 1), settings.connections_max > 0
                                                              ? settings.connections_max
                                                              : connections_default_max);
}

/// The default leaves room for what is not charged: what handlers hold themselves, the C library's
/// free blocks, and, in a cgroup of v2, the kernel's socket buffers. A guess: of all attacks in
/// test_memory_budget.py (--pins) one made more resident than is charged, by a third.
std::size_t memory_max(const server_settings& settings) {
  if (settings.memory_max > 0) return settings.memory_max;
  const memory_limit limit = find_memory_limit();
  const std::size_t bytes = limit.bytes / 10 * 6;
  spdlog::info("--memory-max {} MiB: 60 % of the {} MiB of {}", bytes >> 20, limit.bytes >> 20,
               limit.source);
  return bytes;
}

/// What the kernel cuts each listener's backlog to; none, where it does not say.
std::optional<int> backlog_max() {
  std::ifstream file("/proc/sys/net/core/somaxconn");
  int value = 0;
  return file >> value ? std::optional(value) : std::nullopt;
}

/// Whether connections are ours, not gRPC C++'s alone.
bool has_connections(const server_settings& settings, const inherited_sockets& given,
                     bool native_grpc) {
  return given.http || !settings.http_listen.empty() || native_grpc;
}

/// Limits that are lower than what was asked for. gRPC C++ and inherited sockets have backlogs of
/// their own. `ports`: those whose connections are ours.
void log_what_is_cut(const server_settings& settings, const inherited_sockets& given,
                     std::size_t ports, bool native_grpc) {
  const std::size_t connections = connections_max(settings, ports);
  if (ports > 0 && settings.connections_max > connections) {
    spdlog::warn(
        "--connections-max {}: only {}{}, as no more than {} descriptors may be open; raise the "
        "hard limit of RLIMIT_NOFILE (ulimit -n, LimitNOFILE=)",
        settings.connections_max, connections, ports > 1 ? " on each port" : "",
        descriptor_limit());
  }
  const bool http = !given.http && !settings.http_listen.empty();
  const bool grpc = native_grpc && !given.grpc && !settings.grpc_listen.empty();
  const std::optional<int> most = backlog_max();
  if (most && settings.backlog > *most && (http || grpc)) {
    spdlog::warn("--backlog {}: only {}, the kernel's most; raise net.core.somaxconn",
                 settings.backlog, *most);
  }
}

void refuse_log_of_nothing(const server_settings& settings, const inherited_sockets& given,
                           bool native_grpc) {
  if (!settings.access_log.file.empty() && !has_connections(settings, given, native_grpc)) {
    throw start_error("--access-log " + settings.access_log.file +
                      ": must be left out with --http-listen '' and --grpc grpc++: gRPC C++'s "
                      "answers are not logged");
  }
}

[[noreturn]] void refuse_address(const char* flag, const std::optional<inherited_socket>& given,
                                 const std::string& address, const std::exception& why) {
  if (given) {
    throw start_error("descriptor " + std::to_string(given->fd) + " in place of " + flag + ": " +
                      why.what());
  }
  const auto* system = dynamic_cast<const std::system_error*>(&why);
  // Whoever has it may leave, and an interface may come up.
  const bool may_pass = system && (system->code() == std::errc::address_in_use ||
                                   system->code() == std::errc::address_not_available);
  throw start_error(std::string(flag) + " " + address + ": " +
                        (system ? system->code().message() : why.what()) +
                        "; must be a free ADDRESS:PORT of this machine, port 0 to 65535",
                    may_pass);
}

}  // namespace

std::size_t raise_descriptor_limit() noexcept {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
    limit.rlim_cur = limit.rlim_max;
    ::setrlimit(RLIMIT_NOFILE, &limit);
  }
  return descriptor_limit();
}

termination_signals::termination_signals(bool with_hangup) {
  ::sigemptyset(&set_);
  ::sigaddset(&set_, SIGTERM);
  ::sigaddset(&set_, SIGINT);
  if (with_hangup) ::sigaddset(&set_, SIGHUP);
  ::pthread_sigmask(SIG_BLOCK, &set_, nullptr);
}

std::optional<int> termination_signals::wait_for(
    std::chrono::milliseconds patience) const noexcept {
  const auto ns = std::chrono::nanoseconds(patience % std::chrono::seconds(1)).count();
  const timespec limit{.tv_sec = patience.count() / 1000, .tv_nsec = ns};
  const int number = ::sigtimedwait(&set_, nullptr, &limit);
  return number > 0 ? std::optional(number) : std::nullopt;
}

server::server(const server_settings& settings, server_parts parts, service_manager manager,
               inherited_sockets given)
    : settings_(settings),
      parts_(std::move(parts)),
      given_(given),
      routes_(all_routes()),
      metrics_({.routes = routes_.count(), .statuses = status_count}),
      budget_(memory_max(settings_)),
      times_(static_cast<metrics::ticks>(settings_.http.lane_threshold.count()) *
                 metrics_.ticks_per_ms() / 1000,
             routes_.count()),
      runtime_(std::move(parts_.threads)),
      queue_age_(runtime_->workers_of_ours(), settings_.queue_age_max),
      stalls_(runtime_->workers_of_ours(), settings_.stall_timeout),
      memory_(settings_.workers, budget_.total().bytes_max),
      manager_(std::move(manager)) {
  refuse_log_of_nothing(settings_, given_, has_native_grpc());
  if (settings_.connections_per_address_max > 0) {
    addresses_.emplace(settings_.connections_per_address_max);
  }
  if (!settings_.access_log.file.empty()) log_.emplace(settings_.access_log);
  if (has_http_port()) bind_http();
  if (given_.grpc || !settings_.grpc_listen.empty()) start_grpc();
  if (http_) start_http();
  log_start();
}

std::vector<route> server::all_routes() {
  std::vector<route> all = std::move(parts_.routes);
  std::ranges::move(
      operational_routes({.drain = drain_,
                          .write_metrics = [this](std::string& to) { write_metrics(to); },
                          .describe_stall = [this](std::string& to) { stalls_.describe(to); }}),
      std::back_inserter(all));
  return all;
}

server::last_stop::~last_stop() {
  if (all.grpc_) all.grpc_->shutdown(clock::now());
  all.runtime_->stop();
}

std::unique_ptr<port> server::listen(const std::optional<inherited_socket>& given,
                                     const std::string& address) {
  std::unique_ptr<port> bound =
      given ? runtime_->listen(*given) : runtime_->listen(address, settings_.backlog);
  if (addresses_) bound->limit_addresses(*addresses_);
  limit(*bound, {.unsent_max = settings_.socket_unsent_bytes_max,
                 .unread_max = settings_.socket_unread_bytes_max});
  return bound;
}

void server::bind_http() {
  try {
    http_ = listen(given_.http, settings_.http_listen);
  } catch (const std::exception& error) {
    refuse_address("--http-listen", given_.http, settings_.http_listen, error);
  }
}

/// Of those whose connections are ours.
bool server::has_http_port() const {
  return given_.http || !settings_.http_listen.empty();
}
bool server::has_grpc_port() const {
  return has_native_grpc() && !is_one_address() && (given_.grpc || !settings_.grpc_listen.empty());
}
std::size_t server::ports() const {
  return std::size_t{has_http_port()} + std::size_t{has_grpc_port()};
}

/// Native gRPC is served on the HTTP port anyway.
bool server::is_one_address() const {
  return has_native_grpc() && !given_.grpc && settings_.http_listen == settings_.grpc_listen &&
         !settings_.grpc_listen.ends_with(":0");
}

void server::start_http() {
  const auto* const native = dynamic_cast<const rpc::native_server*>(grpc_.get());
  http2_context_.emplace(h2::common{.workers = runtime_->workers(),
                                    .drain = drain_,
                                    .metrics = metrics_,
                                    .bounds = settings_.http2,
                                    .leaving = http_leaves_,
                                    .memory = budget_,
                                    .calls = native != nullptr ? &native->served() : nullptr,
                                    .log = log_ ? &*log_ : nullptr,
                                    .parts_behind_answers = true});
  http_context_.emplace(h1::common{.workers = runtime_->workers(),
                                   .drain = drain_,
                                   .routes = routes_,
                                   .metrics = metrics_,
                                   .limits = settings_.http,
                                   .times = times_,
                                   .queue_age = queue_age_,
                                   .http2 = *http2_context_,
                                   .log = log_ ? &*log_ : nullptr});
  http_connections_.emplace(*http_context_);
  http_->start(*http_connections_, connections_max(settings_, ports()));
}

void server::start_grpc() {
  if (given_.grpc && !has_native_grpc()) {
    throw start_error(
        "--grpc grpc++: must be native with a socket named grpc (LISTEN_FDNAMES): gRPC C++ listens "
        "on sockets of its own");
  }
  try {
    if (has_native_grpc()) {
      grpc_ = std::make_unique<rpc::native_server>(
          *runtime_, is_one_address() ? nullptr : listen(given_.grpc, settings_.grpc_listen),
          connections_max(settings_, ports()), std::move(parts_.methods), drain_, metrics_,
          settings_.http2, settings_.calls, budget_, log_ ? &*log_ : nullptr, &queue_age_);
    } else {
      grpc_ = parts_.other_grpc(runtime_->workers());
    }
  } catch (const start_error&) {
    throw;
  } catch (const std::exception& error) {
    refuse_address("--grpc-listen", given_.grpc, settings_.grpc_listen, error);
  }
}

void server::log_start() const {
  const runtime_facts facts = runtime_->facts();
  spdlog::log(facts.reactor.refused ? spdlog::level::warn : spdlog::level::info, "reactor {}: {}",
              metrics::name_of(facts.reactor.kind), facts.reactor.note);
  const std::string each = ", " + std::to_string(connections_max(settings_, ports()));
  std::string most;
  if (has_http_port()) most += each + " HTTP connections at most";
  if (has_grpc_port()) most += each + " gRPC connections at most";
  spdlog::info("bwos-server {}: executor {}, {} workers, {} descriptors{}", parts_.version,
               facts.executor, settings_.workers, descriptor_limit(), most);
  log_what_is_cut(settings_, given_, ports(), has_native_grpc());
}

std::string server::addresses() const {
  std::string line = "listening";
  if (http_) line += " http=" + http_->address();
  if (grpc_) line += " grpc=" + (is_one_address() ? http_->address() : grpc_->address());
  return line;
}

void server::write_metrics(std::string& to) const {
  metrics::snapshot now;
  now.routes = &routes_;
  now.http = metrics_.total();
  now.memory = budget_.total();
  if (http_) {
    now.http_listens = true;
    now.connections = http_->connections();
    now.accepted = http_->accepted();
    now.refused = http_->refused();
    now.made_room = http_->made_room();
  }
  if (grpc_) now.grpc = grpc_->statistics();
  if (grpc_) now.grpc_connections = grpc_->connections();
  if (grpc_) now.grpc_refused = grpc_->refused();
  if (grpc_) now.grpc_made_room = grpc_->made_room();
  if (const pool* const ours = runtime_->workers_of_ours()) {
    now.pool = ours->statistics();
    if (settings_.queue_age_max.count() != 0) now.queue_age = ours->queue_age(clock::now());
  }
  const runtime_facts facts = runtime_->facts();
  now.executor = facts.executor;
  now.reactor = facts.reactor.kind;
  if (addresses_) now.address_refused = addresses_->refused();
  if (log_) now.access_log = log_->counts();
  now.asio_lane_run = facts.asio_lane_run;
  now.version = parts_.version;
  metrics::write_text(to, now);
}

bool server::http_has_ended() const noexcept {
  return !http_ || (http_->closed() && http_->connections() == 0);
}

/// One that asks for the end.
std::optional<int> server::signal_within(const termination_signals& signals,
                                         std::chrono::milliseconds patience) {
  const auto number = signals.wait_for(patience);
  if (number != SIGHUP) return number;
  log_->reopen();  // without a log SIGHUP is nobody's
  return std::nullopt;
}

std::optional<int> server::signal_before(const termination_signals& signals,
                                         clock::time_point end) {
  for (auto now = clock::now(); now < end; now = clock::now()) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - now);
    const auto patience =
        std::min({left, stalls_.interval(), manager_.until_watchdog(now), memory_return::interval});
    if (const auto number = signal_within(signals, patience)) return number;
    look_after();
  }
  return std::nullopt;
}

/// The watchdog starves while /healthz fails.
void server::look_after() {
  stalls_.log_new();
  std::string stall;
  stalls_.describe(stall);
  if (stall.empty()) manager_.feed_watchdog(clock::now());
  memory_.look(clock::now());
  if (budget_.is_tight()) {
    if (http_) http_->end_idle_connections();
    if (grpc_) grpc_->end_idle_connections();
  }
}

void server::wait(const termination_signals& signals) {
  manager_.ready(addresses());
  signal_before(signals, clock::time_point::max());
}

/// For --drain-delay, in which load balancers find out and send no more.
void server::serve_unready(const termination_signals& signals) {
  if (settings_.drain_delay.count() == 0) return;
  spdlog::info("not ready, accepting for {} ms yet", settings_.drain_delay.count() / 1000);
  const auto again = signal_before(signals, clock::now() + settings_.drain_delay);
  if (again) end_at_once(*again);
}

/// As the shell says it of the signal.
void server::end_at_once(int signal) {
  if (log_) log_->write_out(last_lines);
  ::_exit(128 + signal);
}

void server::drain(const termination_signals& signals) {
  drain_.begin();
  if (grpc_) grpc_->begin_drain();
  manager_.stopping("draining");
  serve_unready(signals);
  const auto deadline = clock::now() + settings_.drain_timeout;
  spdlog::info("draining, for at most {} ms", settings_.drain_timeout.count() / 1000);
  // [http.leaves] release: what the drain's bell has told. Partner: [endpoint.leaving].
  http_leaves_.store(true, std::memory_order_release);
  if (http_) http_->close();

  std::atomic<bool> grpc_has_ended{false};
  std::jthread grpc_end([&] {  // joined, too, where the rest of this throws
    if (grpc_) grpc_->shutdown(deadline);
    // [drain.grpc.ended] relaxed: the join orders the rest. Partner: [drain.grpc.look].
    grpc_has_ended.store(true, std::memory_order_relaxed);
  });
  bool all_know = false;
  // Ends: at the deadline gRPC cuts its calls off, and HTTP is waited for no longer.
  // [drain.grpc.look] relaxed: seen late, it is asked again. Partner: [drain.grpc.ended].
  while (!grpc_has_ended.load(std::memory_order_relaxed) ||
         !(http_has_ended() || clock::now() >= deadline)) {
    // Again until nobody is accepted any more. A connection that was told, or is at work, ends by
    // itself.
    if (http_ && !all_know) {
      all_know = http_->closed();
      http_->interrupt_connections();
    }
    if (const auto again = signal_within(signals, drain_step)) end_at_once(*again);
    look_after();
  }
  grpc_end.join();
  if (http_ && http_->connections() > 0) {
    // Where a handler computes, the runtime waits for it, and the answer may go out yet.
    spdlog::warn("{} HTTP connections were not done at the end of --drain-timeout",
                 http_->connections());
  }
  runtime_->stop();
}

}  // namespace bwos::server
