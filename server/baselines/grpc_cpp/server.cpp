// SPDX-License-Identifier: Apache-2.0
#include "baselines/grpc_cpp/server.hpp"

#include <google/protobuf/stubs/logging.h>
#include <grpc/grpc.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/health_check_service_interface.h>

#include <algorithm>
#include <future>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "baselines/grpc_cpp/address.hpp"
#include "baselines/grpc_cpp/goaway.hpp"
#include "baselines/grpc_cpp/methods.hpp"

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

/// Switches of the process, read when a server is built; to throw them twice does no harm.
void set_process_switches() {
  // protobuf writes a line for each request that is not UTF-8. Its sender gets an answer instead.
  google::protobuf::SetLogHandler(nullptr);
  grpc::EnableDefaultHealthCheckService(true);
}

/// Ends when the queue is shut down and empty.
void poll(grpc::ServerCompletionQueue& queue) {
  void* tag = nullptr;
  bool ok = false;
  while (queue.Next(&tag, &ok)) call_steps::deliver(tag, ok);
}

}  // namespace

struct grpc_server::core {
  core(const grpc_options& settings, std::unique_ptr<cpp_methods> those)
      : bound(parse_host_port(settings.address)), methods(std::move(those)) {}

  void start(const grpc_options& settings);
  void arm_and_poll(unsigned calls);
  void send_peers_away(steady_clock::time_point deadline);

  host_port bound;
  const std::unique_ptr<cpp_methods> methods;  // outlive the server
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
  builder.RegisterService(&methods->service);
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
  for (const std::string& name : methods->services()) {
    server->GetHealthCheckService()->SetServingStatus(name, true);
  }
}

void grpc_server::core::arm_and_poll(unsigned calls) {
  for (const auto& queue : queues) {
    for (const auto& arm : methods->arms) {
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
    const std::uint64_t before = call_counters::read(methods->count.started);
    send_goaways(*server);  // again: gRPC may since have taken one that was in the backlog
    const std::uint64_t ended = methods->count.ended();
    std::this_thread::sleep_until(std::min(deadline, now + goaway_grace));
    const bool more = call_counters::read(methods->count.started) != before;
    if (more && steady_clock::now() >= heedless) return;
    quiet = !more && ended == before;
  }
}

grpc_server::grpc_server(const grpc_options& settings, std::unique_ptr<cpp_methods> methods) {
  settings.validate();
  core_ = std::make_unique<core>(settings, std::move(methods));
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
  core_->methods->live.wait_for_none();
  // 3. What is left must not hold the stop until the deadline: calls that rpc::is_lasting(), and
  // gRPC's own.
  if (closing.wait_for(other_streams_grace) != std::future_status::ready) {
    grpc_server_cancel_all_calls(core_->server->c_server());
  }
  closing.get();
  core_->methods->lasting.wait_for_none();
  // 4. Nobody starts an operation any more: the queues may close, and the pollers leave once they
  // are empty.
  for (const auto& queue : core_->queues) queue->Shutdown();
  for (std::thread& poller : core_->pollers) poller.join();
  core_->pollers.clear();
  // 5. Its last answers arrive, as far as hold_connections() can see to that.
  let_go(core_->connections, std::min(deadline, steady_clock::now() + other_streams_grace));
}

grpc_statistics grpc_server::statistics() const noexcept {
  const auto sum = [&](std::atomic<std::uint64_t> call_counters::* which) {
    return call_counters::read(core_->methods->count.*which) +
           call_counters::read(core_->methods->lasting_count.*which);
  };
  return {sum(&call_counters::started), sum(&call_counters::ok), sum(&call_counters::failed),
          sum(&call_counters::cancelled), sum(&call_counters::unserved)};
}

}  // namespace bwos::server
