// SPDX-License-Identifier: Apache-2.0
// Runs a load: threads, each with a schedule and a set of connections of its own.
#pragma once

#include "options.hpp"
#include "outcome.hpp"

namespace bwos::load {

// Connects, loads, waits for late answers. Throws std::system_error when the target cannot be
// reached or the real-time priority is refused.
outcome run(const options& with);

}  // namespace bwos::load
