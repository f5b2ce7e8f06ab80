// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "net/runtime.hpp"

namespace bwos::server::asio_sockets {

/// --executor asio-io-context: handlers on a plain io_context, run by all workers, with Asio's own
/// sockets; and long routes on a second pool with --asio-lane.
/// `has_lane`: --asio-lane. Throws std::system_error.
std::unique_ptr<runtime> make_runtime(unsigned workers, bool has_lane);

}  // namespace bwos::server::asio_sockets
