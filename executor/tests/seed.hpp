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

/// How often the tests of random operations on queues do what they usually do, some 10^7 operations
/// for each queue: BWOS_QUEUE_TIMES=100 makes it 10^9, in half an hour or so.
inline unsigned times() {
  const char* const given = std::getenv("BWOS_QUEUE_TIMES");
  return given != nullptr ? static_cast<unsigned>(std::stoul(given)) : 1;
}

}  // namespace bwos::test
