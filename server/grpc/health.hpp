// SPDX-License-Identifier: Apache-2.0
// grpc.health.v1.Health (proto/health.proto), native gRPC's: gRPC C++ brings its own. Follows
// /readyz, for the server ("") and each of its services.
#pragma once

#include "base/drain.hpp"
#include "grpc/methods.hpp"

namespace bwos::server::rpc {

/// Adds both methods, for what has been added before. Check says NOT_FOUND of other services. Watch
/// sends the status now, SERVICE_UNKNOWN for other services, and NOT_SERVING when the server
/// drains; it ends with its caller, or rpc::is_lasting(). `drain` outlives all calls.
void add_health(method_table& to, const drain_state& drain);

}  // namespace bwos::server::rpc
