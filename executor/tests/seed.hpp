// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <random>
#include <string>

namespace bwos::test {

/// A new seed for each run, printed so that a failure can be repeated with BWOS_SEED=<it>.
inline std::uint64_t seed() {
  const char* const given = std::getenv("BWOS_SEED");
  const std::uint64_t chosen = given != nullptr ? std::stoull(given) : std::random_device{}();
  std::cout << "BWOS_SEED=" << chosen << '\n';
  return chosen;
}

}  // namespace bwos::test
