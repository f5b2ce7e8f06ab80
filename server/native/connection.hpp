// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bwos/stream.hpp>
#include <bwos/task.hpp>

#include "native/peer.hpp"

namespace bwos::server::native {

/// Serves one connection until it ends and all its handlers have, and closes it. Runs on the
/// threads of the executor, on one at a time.
task<void> serve(stream socket, const shared& of);

}  // namespace bwos::server::native
