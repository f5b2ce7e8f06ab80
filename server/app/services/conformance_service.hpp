// SPDX-License-Identifier: Apache-2.0
// connectrpc.conformance.v1.ConformanceService (proto/conformance.proto), which that suite's client
// calls (tests/conformance/connect.py): a caller defines the answer, and is told what was seen of
// its call. Served with --grpc-test-service only.
#pragma once

#include <bwos/task.hpp>
#include <chrono>
#include <cstddef>

#include "grpc/handlers.hpp"

namespace connectrpc::conformance::v1 {
class BidiStreamRequest;
class BidiStreamResponse;
class ClientStreamRequest;
class ClientStreamResponse;
class IdempotentUnaryRequest;
class IdempotentUnaryResponse;
class ServerStreamRequest;
class ServerStreamResponse;
class UnaryRequest;
class UnaryResponse;
}  // namespace connectrpc::conformance::v1

namespace bwos::server::handlers {

namespace conformance = connectrpc::conformance::v1;

/// The most that a call remembers of its requests, which it sends back. Above: RESOURCE_EXHAUSTED.
inline constexpr std::size_t conformance_requests_max = 1000;
inline constexpr std::size_t conformance_request_bytes_max = std::size_t{8} * 1024 * 1024;
/// The most that it waits before a reply. Above: INVALID_ARGUMENT.
inline constexpr std::chrono::milliseconds conformance_delay_max{10'000};

task<rpc::status> conformance_unary(rpc::context& call, const conformance::UnaryRequest& request,
                                    conformance::UnaryResponse& reply);
task<rpc::status> conformance_idempotent_unary(rpc::context& call,
                                               const conformance::IdempotentUnaryRequest& request,
                                               conformance::IdempotentUnaryResponse& reply);
task<rpc::status> conformance_server_stream(
    rpc::context& call, conformance::ServerStreamRequest& request,
    rpc::writer<conformance::ServerStreamResponse>& replies);
task<rpc::status> conformance_client_stream(rpc::context& call,
                                            rpc::reader<conformance::ClientStreamRequest>& requests,
                                            conformance::ClientStreamResponse& reply);
task<rpc::status> conformance_bidi_stream(rpc::context& call,
                                          rpc::reader<conformance::BidiStreamRequest>& requests,
                                          rpc::writer<conformance::BidiStreamResponse>& replies);

}  // namespace bwos::server::handlers
