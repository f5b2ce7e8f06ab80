// SPDX-License-Identifier: Apache-2.0
// What the peers on gRPC C++ share: the handlers, and where they listen.
#pragma once

#include <grpcpp/grpcpp.h>
#include <helloworld.pb.h>
#include <work.pb.h>

#include <memory>

#include "common/burn.hpp"
#include "common/options.hpp"

namespace bwos::peer {

inline void run(const helloworld::HelloRequest& request, helloworld::HelloReply& reply) {
  reply.mutable_message()->append("Hello ").append(request.name());
}

inline void run(const BurnRequest& request, BurnReply& reply) {
  reply.set_us(burn_thread_cpu(request.us()));
}

// The port of `with` becomes the chosen one where it was 0. gRPC itself says why, where it cannot.
inline std::unique_ptr<grpc::Server> start(grpc::ServerBuilder& builder, options& with) {
  int port = 0;
  builder.AddListeningPort(endpoint(with), grpc::InsecureServerCredentials(), &port);
  std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (server == nullptr || port == 0) cannot_listen(with, "gRPC did not start");
  with.port = static_cast<std::uint16_t>(port);
  return server;
}

}  // namespace bwos::peer
