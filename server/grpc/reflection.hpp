// SPDX-License-Identifier: Apache-2.0
// gRPC's server reflection (proto/reflection.proto.in): what a client that has no .proto asks for.
#pragma once

#include <bwos/task.hpp>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "grpc/handlers.hpp"

namespace google::protobuf {
class DescriptorPool;
}
namespace grpc::reflection::v1 {
class ServerReflectionRequest;
class ServerReflectionResponse;
}  // namespace grpc::reflection::v1

namespace bwos::server::rpc {

/// The answer to one request, from the files of `known`. A file comes with all that it depends on,
/// each once. What is not found is an error_response of NOT_FOUND, an empty request one of
/// UNIMPLEMENTED. Any thread.
void answer_reflection(const google::protobuf::DescriptorPool& known,
                       std::span<const std::string> services,
                       const grpc::reflection::v1::ServerReflectionRequest& request,
                       grpc::reflection::v1::ServerReflectionResponse& answer);

/// ServerReflectionInfo, of every contract that is linked in.
task<rpc::status> reflect(std::shared_ptr<const std::vector<std::string>> services,
                          rpc::reader<::grpc::reflection::v1::ServerReflectionRequest>& requests,
                          rpc::writer<::grpc::reflection::v1::ServerReflectionResponse>& answers);

/// Adds it, of v1 and of v1alpha, whose bytes are the same: for what has been added before, and
/// gRPC's health service, which comes with each transport by itself. `to` is a rpc::method_adder.
template <class Transport>
void add_reflection(Transport& to) {
  using request = ::grpc::reflection::v1::ServerReflectionRequest;
  using answer = ::grpc::reflection::v1::ServerReflectionResponse;
  constexpr rpc::method_options bounds{.request_bytes_max = rpc::name_request_bytes_max,
                                       .calls_max = rpc::waiting_calls_max};
  auto services = std::make_shared<std::vector<std::string>>(to.services());
  const rpc::both_stream_handler<request, answer> handler =
      [services](rpc::context&, rpc::reader<request>& requests, rpc::writer<answer>& answers) {
        return reflect(services, requests, answers);
      };
  to.both_streams("/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", handler, bounds);
  to.both_streams("/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", handler,
                  bounds);
  *services = to.services();
  services->emplace_back("grpc.health.v1.Health");
}

}  // namespace bwos::server::rpc
