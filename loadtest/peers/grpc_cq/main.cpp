// SPDX-License-Identifier: Apache-2.0
// gRPC C++ at its cheapest: the asynchronous API, a completion queue for each thread, and the
// handler inline on that thread. Every queue keeps calls of each method armed.
#include <grpcpp/grpcpp.h>
#include <helloworld.grpc.pb.h>
#include <work.grpc.pb.h>

#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "common/grpc.hpp"
#include "common/options.hpp"

namespace bwos::peer {
namespace {

constexpr int armed_calls = 100;  // of each method, on each queue

// What a queue delivers.
class step {
 public:
  virtual void go_on(bool ok) = 0;

 protected:
  ~step() = default;
};

template <class Service, class Request, class Reply>
using arm_function = void (Service::*)(grpc::ServerContext*, Request*,
                                       grpc::ServerAsyncResponseWriter<Reply>*,
                                       grpc::CompletionQueue*, grpc::ServerCompletionQueue*, void*);

// Serves one call after the other, each with fresh objects in the same place.
template <class Service, class Request, class Reply>
class call final : public step {
 public:
  call(Service& service, arm_function<Service, Request, Reply> arm,
       grpc::ServerCompletionQueue& queue)
      : service_(service), arm_(arm), queue_(queue) {
    await();
  }

  void go_on(bool ok) override {
    if (answered_) return await();
    if (!ok) return;  // the server is shut down
    answered_ = true;
    run(of_->request, of_->reply);
    of_->responder.Finish(of_->reply, grpc::Status::OK, this);
  }

 private:
  struct objects {
    grpc::ServerContext context;
    Request request;
    Reply reply;
    grpc::ServerAsyncResponseWriter<Reply> responder{&context};
  };

  void await() {
    answered_ = false;
    of_.emplace();
    (service_.*arm_)(&of_->context, &of_->request, &of_->responder, &queue_, &queue_, this);
  }

  Service& service_;
  arm_function<Service, Request, Reply> arm_;
  grpc::ServerCompletionQueue& queue_;
  bool answered_ = false;
  std::optional<objects> of_;
};

using greeter = helloworld::Greeter::AsyncService;
using work = Work::AsyncService;
using hello_call = call<greeter, helloworld::HelloRequest, helloworld::HelloReply>;
using burn_call = call<work, BurnRequest, BurnReply>;

void run_queue(grpc::ServerCompletionQueue& queue, greeter& greets, work& works) {
  std::vector<std::unique_ptr<hello_call>> hellos;
  std::vector<std::unique_ptr<burn_call>> burns;
  for (int i = 0; i < armed_calls; ++i) {
    hellos.push_back(std::make_unique<hello_call>(greets, &greeter::RequestSayHello, queue));
    burns.push_back(std::make_unique<burn_call>(works, &work::RequestBurn, queue));
  }
  void* tag = nullptr;
  bool ok = false;
  while (queue.Next(&tag, &ok)) static_cast<step*>(tag)->go_on(ok);
}

void serve(options with) {
  raise_descriptor_limit();
  if (with.pin >= 0) pin_to(with.pin, with.threads);  // gRPC's own threads are there too
  greeter greets;
  work works;
  grpc::ServerBuilder builder;
  builder.RegisterService(&greets);
  builder.RegisterService(&works);
  std::vector<std::unique_ptr<grpc::ServerCompletionQueue>> queues;
  for (int i = 0; i < with.threads; ++i) queues.push_back(builder.AddCompletionQueue());
  const std::unique_ptr<grpc::Server> server = start(builder, with);
  std::vector<std::thread> others;
  for (std::size_t i = 1; i < queues.size(); ++i) {
    others.emplace_back([&, i] { run_queue(*queues[i], greets, works); });
  }
  print_ready(with, speaks::grpc);
  run_queue(*queues[0], greets, works);
}

}  // namespace
}  // namespace bwos::peer

int main(int argc, char** argv) {
  using namespace bwos::peer;
  serve(parse_options(argc, argv, speaks::grpc));
}
