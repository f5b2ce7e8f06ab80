// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "app/services.hpp"
#include "baselines/grpc_cpp/server.hpp"
#include "net/executor.hpp"

namespace bwos::server {

/// The demo's methods on gRPC C++. As grpc_server's constructor; `workers` must run until
/// shutdown() has returned.
[[nodiscard]] std::unique_ptr<grpc_server> make_grpc_cpp_server(executor& workers,
                                                                const grpc_options& settings,
                                                                const demo_services& services);

}  // namespace bwos::server
