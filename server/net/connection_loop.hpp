// SPDX-License-Identifier: Apache-2.0
// What every connection does, whatever its protocol: wait for bytes or for a turn, let the protocol
// take them, send what it wrote, over and over. On the threads of the factory's executor, on one at
// a time.
#pragma once

#include <bwos/stream.hpp>
#include <bwos/task.hpp>

#include "net/address_limit.hpp"
#include "net/connection.hpp"

namespace bwos::server {

/// Serves one until it ends and all its handlers have, and closes it.
task<void> serve(stream accepted, const connection_factory& of);
/// The same, and gives the place back when it has.
task<void> serve(stream accepted, const connection_factory& of, address_limit::place held);

/// Tells a peer that there are too many, and closes it once that has arrived.
task<void> refuse(stream accepted, const connection_factory& of);

}  // namespace bwos::server
