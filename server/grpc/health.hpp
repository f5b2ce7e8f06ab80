// SPDX-License-Identifier: Apache-2.0
// grpc.health.v1.Health (proto/health.proto), native gRPC's: gRPC C++ brings its own. Follows
// /readyz, for the server ("") and each service of rpc::add_services().
#pragma once

#include <bwos/task.hpp>

#include "grpc/context.hpp"

namespace grpc::health::v1 {
class HealthCheckRequest;
class HealthCheckResponse;
}  // namespace grpc::health::v1

namespace bwos::server::native {

/// NOT_FOUND for other services.
task<rpc::status> check_health(rpc::context& call,
                               const grpc::health::v1::HealthCheckRequest& request,
                               grpc::health::v1::HealthCheckResponse& reply);

/// The status now, SERVICE_UNKNOWN for other services, and NOT_SERVING when the server drains. Ends
/// with its caller, or rpc::is_lasting().
task<rpc::status> watch_health(rpc::context& call, grpc::health::v1::HealthCheckRequest& request,
                               rpc::writer<grpc::health::v1::HealthCheckResponse>& replies);

}  // namespace bwos::server::native
