// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace bwos::simulation {

/// Says how to replay `seed`; ends the process: with success where this check was to fail.
[[noreturn]] void end_with_failure(const std::string& check, std::uint64_t seed);

}  // namespace bwos::simulation
