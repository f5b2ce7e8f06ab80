// SPDX-License-Identifier: Apache-2.0
// gRPC's server reflection (proto/reflection.proto.in): what a client that has no .proto asks for.
#pragma once

#include <bwos/task.hpp>
#include <span>
#include <string_view>

#include "grpc/context.hpp"

namespace google::protobuf {
class DescriptorPool;
}
namespace grpc::reflection::v1 {
class ServerReflectionRequest;
class ServerReflectionResponse;
}  // namespace grpc::reflection::v1

namespace bwos::server::handlers {

/// The answer to one request, from the files of `known`. A file comes with all that it depends on,
/// each once. What is not found is an error_response of NOT_FOUND, an empty request one of
/// UNIMPLEMENTED. Any thread.
void answer_reflection(const google::protobuf::DescriptorPool& known,
                       std::span<const std::string_view> services,
                       const grpc::reflection::v1::ServerReflectionRequest& request,
                       grpc::reflection::v1::ServerReflectionResponse& answer);

/// ServerReflectionInfo of v1, and of v1alpha, whose bytes are the same: of every contract that is
/// linked in.
task<rpc::status> reflect(rpc::context& call,
                          rpc::reader<grpc::reflection::v1::ServerReflectionRequest>& requests,
                          rpc::writer<grpc::reflection::v1::ServerReflectionResponse>& answers);

}  // namespace bwos::server::handlers
