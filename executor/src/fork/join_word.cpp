// SPDX-License-Identifier: Apache-2.0
#include <bwos/fork/forks.hpp>

#include "base/futex_parker.hpp"

namespace bwos::detail {

void join_word::wake(std::uintptr_t parker) noexcept {
  reinterpret_cast<futex_parker*>(parker)->wake();
}

}  // namespace bwos::detail
