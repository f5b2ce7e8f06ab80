// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "app/config.hpp"
#include "net/runtime.hpp"

namespace bwos::server::asio_sockets {

/// --executor asio-io-context: handlers on a plain io_context, run by all workers, with Asio's own
/// sockets; and long routes on a second pool with --asio-lane.
std::unique_ptr<runtime> make_runtime(const config& settings);

}  // namespace bwos::server::asio_sockets
