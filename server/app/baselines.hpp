// SPDX-License-Identifier: Apache-2.0
// What --executor and --grpc choose, the baselines among it.
#pragma once

#include <memory>

#include "app/config.hpp"
#include "app/services.hpp"
#include "grpc/transport.hpp"
#include "net/executor.hpp"
#include "net/runtime.hpp"

namespace bwos::server {

/// What --executor chooses. Starts the threads. Throws std::system_error; start_error for a
/// baseline that was not built (-DBWOS_BASELINES=OFF).
[[nodiscard]] std::unique_ptr<runtime> make_runtime(const config& settings);

/// The demo's methods on gRPC C++; listens and serves. `workers` must run until shutdown() has
/// returned. Throws std::invalid_argument for a bad option, std::system_error where the address
/// cannot be listened on; start_error as above.
[[nodiscard]] std::unique_ptr<grpc_transport> make_grpc_cpp_server(executor& workers,
                                                                   const grpc_options& settings,
                                                                   const demo_services& services);

}  // namespace bwos::server
