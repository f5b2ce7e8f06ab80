// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bwos/task.hpp>

#include "rpc/context.hpp"

namespace grpc::health::v1 {
class HealthCheckRequest;
class HealthCheckResponse;
}  // namespace grpc::health::v1

namespace bwos::server::handlers {

/// grpc.health.v1.Health/Check: follows /readyz, for the server ("") and each service of
/// rpc::add_services(); NOT_FOUND for others.
task<rpc::status> check_health(rpc::context& call,
                               const grpc::health::v1::HealthCheckRequest& request,
                               grpc::health::v1::HealthCheckResponse& reply);

}  // namespace bwos::server::handlers
