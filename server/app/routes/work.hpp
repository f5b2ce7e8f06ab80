// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "http/message.hpp"

namespace bwos::server::handlers {

/// Burns as many microseconds of this thread's CPU time as the query's `us` says, at most `us_max`.
/// A request of known cost, for measuring what long requests do to short ones.
response work(std::string_view query, std::uint64_t us_max, std::string& scratch);

}  // namespace bwos::server::handlers
