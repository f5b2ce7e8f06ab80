// SPDX-License-Identifier: Apache-2.0
// Randomized block stealing (OSDI '23, section 4.3): a random block of a random victim is sampled,
// and what it holds is stolen from that very block. A longer queue has more blocks with work, so it
// is found with a higher probability.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/random.hpp"
#include "queue/block.hpp"

namespace bwos {

/// Blocks looked at per victim. Measured on a prototype: more found little more. A searcher that
/// finds nothing this way looks at every block before it sleeps, so a small bound loses no work.
inline constexpr unsigned samples_per_victim = 4;
/// Claims tried on one block while others win them.
inline constexpr unsigned conflicts_max = 4;

/// Up to `max` entries of one block; conflicts are counted into `conflicts`.
template <class Thief, class Value>
std::size_t steal_from_block(const Thief& victim, std::size_t block, Value* out, std::size_t max,
                             std::uint64_t& conflicts) noexcept {
  for (unsigned attempt = 0; attempt < conflicts_max; ++attempt) {
    const steal_result result = victim.steal(block, out, max);
    if (result.status != steal_status::conflict) return result.count;
    ++conflicts;
  }
  return 0;
}

/// Some random blocks of one victim. `block` is where it was found.
template <class Thief, class Value>
std::size_t steal_from_random_block(const Thief& victim, random_source& random, Value* out,
                                    std::size_t max, std::size_t block_count, std::size_t& block,
                                    std::uint64_t& conflicts) noexcept {
  for (unsigned i = 0; i < samples_per_victim; ++i) {
    block = random.below(static_cast<std::uint32_t>(block_count));
    if (!victim.sample(block)) continue;
    const std::size_t count = steal_from_block(victim, block, out, max, conflicts);
    if (count != 0) return count;
  }
  return 0;
}

}  // namespace bwos
