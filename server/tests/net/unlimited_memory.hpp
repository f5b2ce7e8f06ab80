// SPDX-License-Identifier: Apache-2.0
// For tests that are not about memory.
#pragma once

#include "net/memory_budget.hpp"

namespace bwos::server::test {

inline memory_budget& unlimited_memory() {
  static memory_budget all;
  return all;
}

/// Of one thread at a time.
inline memory_account& unlimited_account() {
  static memory_account one(unlimited_memory(), -1, 0);
  return one;
}

}  // namespace bwos::server::test
