// SPDX-License-Identifier: Apache-2.0
#include "baselines/grpc_cpp/server.hpp"

#include <google/protobuf/stubs/logging.h>
#include <grpc/grpc.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/health_check_service_interface.h>
#include <helloworld.pb.h>
#include <test_service.pb.h>
#include <work.pb.h>

#include <algorithm>
#include <atomic>
#include <bwos/options.hpp>
#include <condition_variable>
#include <functional>
#include <future>
#include <mutex>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "app/services.hpp"
#include "base/throw_log.hpp"
#include "baselines/grpc_cpp/address.hpp"
#include "baselines/grpc_cpp/call.hpp"
#include "baselines/grpc_cpp/goaway.hpp"
#include "grpc/status_message.hpp"

namespace bwos::server {
namespace {

using std::chrono::steady_clock;
using std::chrono::system_clock;

/// How long the stop waits for streams that last (a health watch, an open reflection stream) and
/// for peers to take their GOAWAY, once all other calls have ended, and at the end for what was
/// sent to arrive. A guess: a round trip anywhere.
constexpr std::chrono::milliseconds other_streams_grace{250};
/// gRPC's shutdown cancels calls that are on their way, and closes connections with what their
/// peers have sent unread, whose reset overtakes answers. So it comes when so long after the GOAWAY
/// no call has come and all have ended, the same guess: peers have closed by then. Or for those
/// that pay no heed when goaway_patience is over.
constexpr std::chrono::milliseconds goaway_grace{250};
constexpr std::chrono::seconds goaway_patience{5};

void in_range(const char* name, std::size_t value, std::size_t low, std::size_t high) {
  if (value >= low && value <= high) return;
  throw std::invalid_argument(std::string(name) + " = " + std::to_string(value) +
                              " is out of range: " + std::to_string(low) + " to " +
                              std::to_string(high));
}

/// Switches of the process, read when a server is built; to throw them twice does no harm.
void set_process_switches() {
  // protobuf writes a line for each request that is not UTF-8. Its sender gets an answer instead.
  google::protobuf::SetLogHandler(nullptr);
  grpc::EnableDefaultHealthCheckService(true);
}

/// Written by all workers; one call touches two of them, beside some 10 us of gRPC.
struct counters {
  std::atomic<std::uint64_t> started{0};
  std::atomic<std::uint64_t> ok{0};
  std::atomic<std::uint64_t> failed{0};
  std::atomic<std::uint64_t> cancelled{0};
  std::atomic<std::uint64_t> unserved{0};

  // [calls.count] relaxed: a sum that only grows, for people to read. The stop concludes from two
  // that no call is left, which a sum that lags can only put off: it looks again a grace later.
  // Partner: [calls.read].
  static void add(std::atomic<std::uint64_t>& counter) noexcept {
    counter.fetch_add(1, std::memory_order_relaxed);
  }
  // [calls.read] relaxed: publishes nothing but itself. Partner: [calls.count].
  static std::uint64_t read(const std::atomic<std::uint64_t>& counter) noexcept {
    return counter.load(std::memory_order_relaxed);
  }
  [[nodiscard]] std::uint64_t ended() const noexcept {
    return read(ok) + read(failed) + read(cancelled);
  }
};

/// Counts coroutines that have not ended. A mutex, because the waiter may free it as soon as the
/// last one is out.
class live_count {
 public:
  void enter() {
    const std::lock_guard lock(mutex_);
    ++count_;
  }
  void leave() {
    const std::lock_guard lock(mutex_);
    if (--count_ == 0) none_left_.notify_all();
  }
  void wait_for_none() {
    std::unique_lock lock(mutex_);
    none_left_.wait(lock, [this] { return count_ == 0; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable none_left_;
  std::size_t count_ = 0;
};

grpc::Status status_of(const rpc::status& result) {
  return {static_cast<grpc::StatusCode>(result.what), std::string(rpc::shortened(result.message))};
}

grpc::Status no_worker_in_time() {
  return {grpc::StatusCode::DEADLINE_EXCEEDED, "no worker was free before the deadline"};
}

/// Serves one call after the other until the server stops. The messages are made anew for each, so
/// that an armed call does not keep the largest request it has ever seen.
template <class Request, class Reply>
call_loop serve(executor& workers, const service& handlers, counters& count, live_count& live,
                method_service& methods, int method, const char* path,
                rpc::unary_handler<Request, Reply> handler, grpc::ServerCompletionQueue& queue) {
  call_steps steps(workers);
  live.enter();
  for (;;) {
    unary_call<Request, Reply> call(steps, handlers);
    if (!co_await call.accept(methods, method, queue)) break;
    counters::add(count.started);
    if (call.is_cancelled() || call.past_deadline()) {
      if (!call.is_cancelled()) co_await call.finish(no_worker_in_time());
      counters::add(count.unserved);
      counters::add(count.cancelled);
      continue;
    }
    rpc::status result;
    try {
      result = co_await handler(call, call.request, call.reply);
    } catch (...) {
      log_thrown(path);
      result = rpc::handler_threw();
    }
    const grpc::Status status = status_of(result);
    const bool taken = co_await call.finish(status);
    counters::add(!taken ? count.cancelled : status.ok() ? count.ok : count.failed);
  }
  live.leave();
}

/// How a handler of each streaming kind is run.
template <class Request, class Reply>
task<rpc::status> run(stream_call& call, rpc::server_stream_handler<Request, Reply> handler) {
  Request request;
  if (!co_await rpc::reader<Request>(call).read(request)) co_return rpc::not_readable();
  rpc::writer<Reply> replies(call);
  co_return co_await handler(call, request, replies);
}

template <class Request, class Reply>
task<rpc::status> run(stream_call& call, rpc::client_stream_handler<Request, Reply> handler) {
  rpc::reader<Request> requests(call);
  Reply reply;
  rpc::status result = co_await handler(call, requests, reply);
  if (call.is_bad()) co_return rpc::not_readable();
  if (result.ok()) call.write_last(reply);
  co_return result;
}

template <class Request, class Reply>
task<rpc::status> run(stream_call& call, rpc::both_stream_handler<Request, Reply> handler) {
  rpc::reader<Request> requests(call);
  rpc::writer<Reply> replies(call);
  rpc::status result = co_await handler(call, requests, replies);
  co_return call.is_bad() ? rpc::not_readable() : result;
}

template <class Handler>
call_loop serve_streams(executor& workers, const service& handlers, counters& count,
                        live_count& live, method_service& methods, int method, const char* path,
                        Handler handler, grpc::ServerCompletionQueue& queue) {
  call_steps steps(workers);
  live.enter();
  for (;;) {
    stream_call call(steps, handlers, workers);
    if (!co_await call.accept(methods, method, queue)) break;
    counters::add(count.started);
    if (call.is_cancelled() || call.past_deadline()) {
      if (!call.is_cancelled()) co_await call.finish(no_worker_in_time());
      counters::add(count.unserved);
      counters::add(count.cancelled);
      continue;
    }
    rpc::status result;
    try {
      result = co_await run(call, handler);
    } catch (...) {
      log_thrown(path);
      result = rpc::handler_threw();
    }
    const grpc::Status status = status_of(result);
    const bool taken = co_await call.finish(status);
    counters::add(!taken ? count.cancelled : status.ok() ? count.ok : count.failed);
  }
  live.leave();
}

/// Ends when the queue is shut down and empty.
void poll(grpc::ServerCompletionQueue& queue) {
  void* tag = nullptr;
  bool ok = false;
  while (queue.Next(&tag, &ok)) call_steps::deliver(tag, ok);
}

}  // namespace

unsigned grpc_options::default_queue_threads() noexcept {
  return std::clamp(default_workers() / 2, 1U, 4U);
}

void grpc_options::validate() const {
  (void)parse_host_port(address);
  in_range("message_bytes_max", message_bytes_max, 1, std::size_t{1} << 30);
  in_range("streams_max", streams_max, 1, 65535);
  in_range("queue_threads", queue_threads, 1, 64);
  in_range("calls_armed", calls_armed, 1, 65536);
}

struct grpc_server::core {
  core(executor& where, const grpc_options& settings, const service& those)
      : workers(where), handlers(those), bound(parse_host_port(settings.address)) {
    rpc::add_services(*this, handlers);
  }

  /// For rpc::add_services().
  template <class Request, class Reply>
  void unary(const char* path, rpc::unary_handler<Request, Reply> handler) {
    arms.push_back([this, method = methods.add(path, false), path,
                    handler](grpc::ServerCompletionQueue& queue) {
      serve(workers, handlers, count, live, methods, method, path, handler, queue);
    });
  }
  template <class Request, class Reply>
  void server_stream(const char* path, rpc::server_stream_handler<Request, Reply> handler) {
    add_streams(path, handler);
  }
  template <class Request, class Reply>
  void client_stream(const char* path, rpc::client_stream_handler<Request, Reply> handler) {
    add_streams(path, handler);
  }
  template <class Request, class Reply>
  void both_streams(const char* path, rpc::both_stream_handler<Request, Reply> handler,
                    const rpc::method_options& /*options*/ = {}) {
    add_streams(path, handler);
  }
  template <class Handler>
  void add_streams(const char* path, Handler handler) {
    const bool lasts = rpc::is_lasting(path);
    arms.push_back([this, &counted = lasts ? lasting_count : count, &its = lasts ? lasting : live,
                    method = methods.add(path, true), path,
                    handler](grpc::ServerCompletionQueue& queue) {
      serve_streams(workers, handlers, counted, its, methods, method, path, handler, queue);
    });
  }

  void start(const grpc_options& settings);
  void arm_and_poll(unsigned calls);
  void send_peers_away(steady_clock::time_point deadline);

  executor& workers;
  const service& handlers;
  host_port bound;
  counters count;
  live_count live;
  counters lasting_count;  // of the methods that rpc::is_lasting()
  live_count lasting;
  method_service methods;                                               // outlives the server
  std::vector<std::function<void(grpc::ServerCompletionQueue&)>> arms;  // one call of each method
  std::vector<std::unique_ptr<grpc::ServerCompletionQueue>> queues;
  std::unique_ptr<grpc::Server> server;
  std::vector<int> listeners;    // its sockets
  std::vector<int> connections;  // second descriptors of them, while it stops
  std::vector<std::thread> pollers;
};

void grpc_server::core::start(const grpc_options& settings) {
  probe_listen(bound);
  set_process_switches();
  grpc::ServerBuilder builder;
  int port = 0;
  // Otherwise two servers would share the port, and each get some of the connections, with no error
  // anywhere.
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS,
                             static_cast<int>(settings.streams_max));
  builder.SetMaxReceiveMessageSize(static_cast<int>(settings.message_bytes_max));
  builder.AddListeningPort(bound.text(), grpc::InsecureServerCredentials(), &port);
  builder.RegisterService(&methods);
  for (unsigned i = 0; i < settings.queue_threads; ++i) {
    queues.push_back(builder.AddCompletionQueue());
  }
  const std::vector<int> others = listening_sockets();
  server = builder.BuildAndStart();
  if (!server || port == 0) {
    throw std::system_error(
        std::make_error_code(std::errc::address_in_use),
        "gRPC cannot listen on " + bound.text() + ", which was free a moment ago");
  }
  bound.port = static_cast<std::uint16_t>(port);
  listeners = listening_sockets();
  std::erase_if(listeners, [&](int fd) { return std::ranges::count(others, fd) > 0; });
  for (const std::string_view name : rpc::service_names(handlers)) {
    server->GetHealthCheckService()->SetServingStatus(std::string(name), true);
  }
}

void grpc_server::core::arm_and_poll(unsigned calls) {
  for (const auto& queue : queues) {
    for (const auto& arm : arms) {
      for (unsigned i = 0; i < calls; ++i) arm(*queue);
    }
    pollers.emplace_back([&polled = *queue] { poll(polled); });
  }
}

void grpc_server::core::send_peers_away(steady_clock::time_point deadline) {
  const std::vector<sockaddr_storage> addresses = addresses_of(listeners);
  stop_listening(listeners);
  connections = hold_connections(addresses);
  if (!goaways_can_be_sent()) return;
  const auto heedless = steady_clock::now() + goaway_patience;
  bool quiet = false;  // no call has come since, and none is left
  for (auto now = steady_clock::now(); !quiet && now < deadline; now = steady_clock::now()) {
    const std::uint64_t before = counters::read(count.started);
    send_goaways(*server);  // again: gRPC may since have taken one that was in the backlog
    const std::uint64_t ended = count.ended();
    std::this_thread::sleep_until(std::min(deadline, now + goaway_grace));
    const bool more = counters::read(count.started) != before;
    if (more && steady_clock::now() >= heedless) return;
    quiet = !more && ended == before;
  }
}

grpc_server::grpc_server(executor& workers, const grpc_options& settings, const service& handlers) {
  settings.validate();
  core_ = std::make_unique<core>(workers, settings, handlers);
  core_->start(settings);
  core_->arm_and_poll(settings.calls_armed);
}

grpc_server::~grpc_server() {
  shutdown(steady_clock::now());
}

std::string grpc_server::address() const {
  return core_->bound.text();
}

void grpc_server::begin_drain() noexcept {
  core_->server->GetHealthCheckService()->Shutdown();
}

void grpc_server::shutdown(steady_clock::time_point deadline) {
  if (core_->pollers.empty()) return;
  begin_drain();
  core_->send_peers_away(deadline);
  // 1. No new calls; those in flight go on. gRPC cancels them itself at the deadline, and blocks
  // meanwhile.
  auto closing = std::async(std::launch::async, [this, left = deadline - steady_clock::now()] {
    core_->server->Shutdown(system_clock::now() +
                            std::chrono::duration_cast<system_clock::duration>(left));
  });
  // 2. The coroutines end: the armed ones are refused, the others were answered or cancelled.
  core_->live.wait_for_none();
  // 3. What is left must not hold the stop until the deadline: calls that rpc::is_lasting(), and
  // gRPC's own.
  if (closing.wait_for(other_streams_grace) != std::future_status::ready) {
    grpc_server_cancel_all_calls(core_->server->c_server());
  }
  closing.get();
  core_->lasting.wait_for_none();
  // 4. Nobody starts an operation any more: the queues may close, and the pollers leave once they
  // are empty.
  for (const auto& queue : core_->queues) queue->Shutdown();
  for (std::thread& poller : core_->pollers) poller.join();
  core_->pollers.clear();
  // 5. Its last answers arrive, as far as hold_connections() can see to that.
  let_go(core_->connections, std::min(deadline, steady_clock::now() + other_streams_grace));
}

grpc_statistics grpc_server::statistics() const noexcept {
  const auto sum = [&](std::atomic<std::uint64_t> counters::* which) {
    return counters::read(core_->count.*which) + counters::read(core_->lasting_count.*which);
  };
  return {sum(&counters::started), sum(&counters::ok), sum(&counters::failed),
          sum(&counters::cancelled), sum(&counters::unserved)};
}

}  // namespace bwos::server
