// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <utility>

// The calling thread's worker, for what forks; not for use of its own. The seeded schedule test has
// a header of this name in front of this one: there it belongs to a simulated thread.

namespace bwos::detail {

class forks;

[[gnu::tls_model("initial-exec")]] extern constinit thread_local forks* forks_here;

#if defined(__clang__)
// Not inlined: clang may keep the address of a thread_local across a coroutine's suspension.
[[gnu::noinline]]
#endif
inline forks* current_forks() noexcept {
  return forks_here;
}

/// Returns the former one, to be restored.
inline forks* set_current_forks(forks* to) noexcept {
  return std::exchange(forks_here, to);
}

}  // namespace bwos::detail
