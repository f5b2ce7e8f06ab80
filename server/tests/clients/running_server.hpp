// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <helloworld.grpc.pb.h>
#include <reflection_v1.pb.h>
#include <test_service.pb.h>

#include <bwos/continuation.hpp>
#include <bwos/pool.hpp>
#include <chrono>
#include <future>
#include <memory>
#include <semaphore>
#include <string>
#include <thread>
#include <utility>

#include "app/baselines.hpp"
#include "grpc/methods.hpp"
#include "net/executor.hpp"

namespace bwos::server::test {

using namespace std::chrono_literals;

inline options pool_options(unsigned workers) {
  options settings;
  settings.workers = workers;
  return settings;
}

/// The demo's, for native gRPC.
inline rpc::method_table methods_of(const demo_services& services) {
  rpc::method_table made;
  add_services(made, services);
  return made;
}

inline grpc_options any_port() {
  grpc_options settings;
  settings.address = "127.0.0.1:0";
  settings.calls_armed = 128;
  return settings;
}

/// Polls until `condition` holds; false if it does not within 20 seconds.
template <class Condition>
bool eventually(Condition condition) {
  for (int i = 0; i < 20'000; ++i) {
    if (condition()) return true;
    std::this_thread::sleep_for(1ms);
  }
  return false;
}

/// A pool and a server on it, with a client of its own connection.
struct running_server {
  explicit running_server(const grpc_options& settings = any_port(), unsigned workers = 2)
      : workers(pool_options(workers)),
        executor(this->workers),
        server(make_grpc_cpp_server(executor, settings, {})) {}

  [[nodiscard]] std::shared_ptr<grpc::Channel> connect() const {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL,
                     1);  // Otherwise channels share connections.
    arguments.SetMaxReceiveMessageSize(-1);
    return grpc::CreateCustomChannel(server->address(), grpc::InsecureChannelCredentials(),
                                     arguments);
  }

  /// Calls that have reached the server and wait for a worker, while a busy_worker holds the only
  /// one.
  [[nodiscard]] bool eventually_waiting(std::uint64_t calls) const {
    return eventually([&] { return workers.statistics().inject_depth == calls; });
  }

  pool workers;
  pool_executor executor;
  const std::unique_ptr<grpc_transport> server;
};

/// Keeps one worker of a pool busy until release(), so that a test decides what happens before a
/// call is served.
class busy_worker : continuation {
 public:
  explicit busy_worker(pool& where) : continuation(&hold) {
    where.post(*this);
    entered_.acquire();
  }
  ~busy_worker() {
    release();
    left_.acquire();
  }
  void release() {
    if (!std::exchange(released_, true)) leave_.release();
  }

 private:
  static void hold(continuation& self, disposition) noexcept {
    auto& busy = static_cast<busy_worker&>(self);
    busy.entered_.release();
    busy.leave_.acquire();
    busy.left_.release();
  }
  std::binary_semaphore entered_{0}, leave_{0}, left_{0};
  bool released_ = false;
};

inline std::pair<grpc::Status, std::string> say_hello(grpc::Channel& channel,
                                                      const std::string& name,
                                                      grpc::ClientContext& context) {
  helloworld::HelloRequest request;
  request.set_name(name);
  helloworld::HelloReply reply;
  const auto stub =
      helloworld::Greeter::NewStub(std::shared_ptr<grpc::Channel>(&channel, [](void*) {}));
  const grpc::Status status = stub->SayHello(&context, request, &reply);
  return {status, reply.message()};
}

inline std::pair<grpc::Status, std::string> say_hello(grpc::Channel& channel,
                                                      const std::string& name) {
  grpc::ClientContext context;
  context.set_wait_for_ready(true);
  return say_hello(channel, name, context);
}

/// One call that is over and done with, also on the server's side.
inline void say_first_hello(const running_server& running, grpc::Channel& channel) {
  ASSERT_TRUE(say_hello(channel, "first").first.ok());
  ASSERT_TRUE(eventually([&] { return running.server->statistics().ok == 1; }));
}

inline grpc::ByteBuffer buffer_of(const std::string& bytes) {
  const grpc::Slice slice(bytes);
  return {&slice, 1};
}

inline std::string bytes_of(const grpc::ByteBuffer& buffer) {
  grpc::Slice slice;
  if (!buffer.DumpToSingleSlice(&slice).ok()) return {};
  return {reinterpret_cast<const char*>(slice.begin()), slice.size()};
}

/// A unary call of any method, with bytes for messages.
inline std::pair<grpc::Status, std::string> call_raw(const std::shared_ptr<grpc::Channel>& channel,
                                                     const std::string& method,
                                                     const std::string& request) {
  grpc::GenericStub stub(channel);
  grpc::ClientContext context;
  grpc::CompletionQueue queue;
  const auto call = stub.PrepareUnaryCall(&context, method, buffer_of(request), &queue);
  call->StartCall();
  grpc::ByteBuffer reply;
  grpc::Status status;
  call->Finish(&reply, &status, nullptr);
  void* tag = nullptr;
  bool ok = false;
  queue.Next(&tag, &ok);
  queue.Shutdown();
  while (queue.Next(&tag, &ok)) {
  }
  return {status, bytes_of(reply)};
}

inline std::pair<grpc::Status, std::string> check_health(
    const std::shared_ptr<grpc::Channel>& channel, const std::string& service) {
  std::string name("\x0a");
  name += static_cast<char>(service.size());
  name += service;
  return call_raw(channel, "/grpc.health.v1.Health/Check", service.empty() ? "" : name);
}

/// A stream of any method, with bytes for messages, one step at a time.
class raw_stream {
 public:
  raw_stream(const std::shared_ptr<grpc::Channel>& channel, const std::string& method)
      : stub_(channel), stream_(stub_.PrepareCall(&context_, method, &queue_)) {
    stream_->StartCall(nullptr);
    step();
  }
  ~raw_stream() {
    context_.TryCancel();
    queue_.Shutdown();
    void* tag = nullptr;
    bool ok = false;
    while (queue_.Next(&tag, &ok)) {
    }
  }
  raw_stream(const raw_stream&) = delete;
  raw_stream& operator=(const raw_stream&) = delete;

  bool write(const std::string& message) {
    stream_->Write(buffer_of(message), nullptr);
    return step();
  }
  bool read(std::string& message) {
    grpc::ByteBuffer buffer;
    stream_->Read(&buffer, nullptr);
    const bool ok = step();
    if (ok) message = bytes_of(buffer);
    return ok;
  }

 private:
  bool step() {
    void* tag = nullptr;
    bool ok = false;
    return queue_.Next(&tag, &ok) && ok;
  }

  grpc::ClientContext context_;
  grpc::CompletionQueue queue_;
  grpc::GenericStub stub_;
  std::unique_ptr<grpc::GenericClientAsyncReaderWriter> stream_;
};

}  // namespace bwos::server::test
