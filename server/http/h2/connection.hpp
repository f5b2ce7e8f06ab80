// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bwos/stream.hpp>
#include <bwos/task.hpp>
#include <string>

#include "grpc/peer.hpp"

namespace bwos::server::native {

/// Serves one connection until it ends and all its handlers have, and closes it. Runs on the
/// threads of the executor, on one at a time. With `http` its routes are served too; `first`: what
/// was received before it was known to be HTTP/2.
task<void> serve(stream socket, const shared& of, const http1::context* http = nullptr,
                 std::string first = {});

}  // namespace bwos::server::native
