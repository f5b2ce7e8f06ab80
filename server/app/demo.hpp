// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "app/config.hpp"
#include "ops/inherited_sockets.hpp"
#include "ops/lifecycle.hpp"
#include "ops/service_manager.hpp"

namespace bwos::server {

/// The demo: a server with its routes and services, on what --executor and --grpc choose. As
/// server's constructor. Throws start_error.
[[nodiscard]] std::unique_ptr<server> make_demo(const config& settings,
                                                service_manager manager = {},
                                                inherited_sockets given = {});

}  // namespace bwos::server
