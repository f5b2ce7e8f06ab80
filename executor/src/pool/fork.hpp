// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace bwos {

/// Counts forks from now on (base/fork_generation.hpp). Throws std::system_error when there is no
/// memory for it.
void count_forks();

}  // namespace bwos
