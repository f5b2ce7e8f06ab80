// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "http/router.hpp"

namespace bwos::server {

/// The demo's own routes, beside the operational ones. `work_us_max`: the most that /work burns; 0:
/// there is no /work. To add a route: a line in routes.cpp.
[[nodiscard]] std::vector<route> demo_routes(std::uint64_t work_us_max);

}  // namespace bwos::server
