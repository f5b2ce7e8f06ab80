// SPDX-License-Identifier: Apache-2.0
// Stands in front of executor/include/bwos/fork/here.hpp: what is thread_local there belongs to a
// simulated thread.
#pragma once

namespace bwos::detail {

class forks;

forks* current_forks() noexcept;
forks* set_current_forks(forks* to) noexcept;

}  // namespace bwos::detail
