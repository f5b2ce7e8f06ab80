// SPDX-License-Identifier: Apache-2.0
// In place of executor/src/base/asymmetric_fence.cpp: a system call that takes its time.
#include <bwos/base/asymmetric_fence.hpp>

#include "machine.hpp"

namespace bwos {

bool asymmetric_fence::available() noexcept {
  return true;
}

void asymmetric_fence::heavy() noexcept {
  simulation::step("membarrier");
}

}  // namespace bwos
