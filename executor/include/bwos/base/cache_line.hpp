// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

namespace bwos {

/// What two threads may not share without slowing each other down, in bytes. 64 on x86-64 and most
/// AArch64 cores; std::hardware_destructive_interference_size is not used because it may change
/// with compiler flags.
inline constexpr std::size_t cache_line = 64;

}  // namespace bwos
