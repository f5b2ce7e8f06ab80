// SPDX-License-Identifier: Apache-2.0
// gRPC C++ with its callback API, as its users write it: a reactor for each call, finished where it
// begins, on a thread of gRPC's own.
//
// --threads N: that API takes no number. gRPC C++ 1.51 starts half as many threads as the machine
// has CPUs, 2 to 16, and handlers run on them. So N is how many CPUs all threads here may run on:
// from --pin on, or else the first N of those that the process may use.
#include <grpcpp/grpcpp.h>
#include <helloworld.grpc.pb.h>
#include <sched.h>
#include <work.grpc.pb.h>

#include <memory>

#include "common/grpc.hpp"
#include "common/options.hpp"

namespace bwos::peer {
namespace {

class greeter final : public helloworld::Greeter::CallbackService {
  grpc::ServerUnaryReactor* SayHello(grpc::CallbackServerContext* context,
                                     const helloworld::HelloRequest* request,
                                     helloworld::HelloReply* reply) override {
    run(*request, *reply);
    grpc::ServerUnaryReactor* const reactor = context->DefaultReactor();
    reactor->Finish(grpc::Status::OK);
    return reactor;
  }
};

class work final : public Work::CallbackService {
  grpc::ServerUnaryReactor* Burn(grpc::CallbackServerContext* context, const BurnRequest* request,
                                 BurnReply* reply) override {
    run(*request, *reply);
    grpc::ServerUnaryReactor* const reactor = context->DefaultReactor();
    reactor->Finish(grpc::Status::OK);
    return reactor;
  }
};

// Before gRPC starts its threads, which inherit it.
void use_cpus(const options& with) {
  if (with.pin >= 0) return pin_to(with.pin, with.threads);
  cpu_set_t set;
  ::sched_getaffinity(0, sizeof set, &set);
  int left = with.threads;
  for (std::size_t cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &set) && left-- <= 0) CPU_CLR(cpu, &set);
  }
  ::sched_setaffinity(0, sizeof set, &set);
}

void serve(options with) {
  raise_descriptor_limit();
  use_cpus(with);
  greeter greets;
  work works;
  grpc::ServerBuilder builder;
  builder.RegisterService(&greets);
  builder.RegisterService(&works);
  const std::unique_ptr<grpc::Server> server = start(builder, with);
  print_ready(with, speaks::grpc);
  server->Wait();
}

}  // namespace
}  // namespace bwos::peer

int main(int argc, char** argv) {
  using namespace bwos::peer;
  serve(parse_options(argc, argv, speaks::grpc));
}
