// SPDX-License-Identifier: Apache-2.0
// grpc.testing.TestService, gRPC's interoperability contract (proto/test_service.proto). Its test
// cases: grpc/doc/interop-test-descriptions.md. Served with --grpc-test-service only: a caller says
// how large the replies are, up to test_reply_bytes_max.
#pragma once

#include <bwos/task.hpp>
#include <cstddef>

#include "grpc/handlers.hpp"

namespace grpc::testing {
class Empty;
class SimpleRequest;
class SimpleResponse;
class StreamingInputCallRequest;
class StreamingInputCallResponse;
class StreamingOutputCallRequest;
class StreamingOutputCallResponse;
}  // namespace grpc::testing

namespace bwos::server::handlers {

/// Above: INVALID_ARGUMENT.
inline constexpr std::size_t test_reply_bytes_max = std::size_t{4} * 1024 * 1024;

task<rpc::status> empty_call(rpc::context& call, const grpc::testing::Empty& request,
                             grpc::testing::Empty& reply);
task<rpc::status> unary_call(rpc::context& call, const grpc::testing::SimpleRequest& request,
                             grpc::testing::SimpleResponse& reply);
task<rpc::status> streaming_output_call(
    rpc::context& call, grpc::testing::StreamingOutputCallRequest& request,
    rpc::writer<grpc::testing::StreamingOutputCallResponse>& replies);
task<rpc::status> streaming_input_call(
    rpc::context& call, rpc::reader<grpc::testing::StreamingInputCallRequest>& requests,
    grpc::testing::StreamingInputCallResponse& reply);
task<rpc::status> full_duplex_call(
    rpc::context& call, rpc::reader<grpc::testing::StreamingOutputCallRequest>& requests,
    rpc::writer<grpc::testing::StreamingOutputCallResponse>& replies);
task<rpc::status> half_duplex_call(
    rpc::context& call, rpc::reader<grpc::testing::StreamingOutputCallRequest>& requests,
    rpc::writer<grpc::testing::StreamingOutputCallResponse>& replies);

}  // namespace bwos::server::handlers
