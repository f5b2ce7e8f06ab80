// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace bwos::server::handlers {

/// Until this thread has used `us` microseconds more of CPU time.
void burn_cpu(std::uint64_t us) noexcept;

}  // namespace bwos::server::handlers
