// SPDX-License-Identifier: Apache-2.0
// Where to steal, and how much. A policy is an object of one worker: it chooses victim, block and
// amount, and says what came of it. The worker hands it a way to each worker's queue and room for
// what is taken, so that another policy (the nearest victim, half a block, every block accepted by
// the queue's length) takes this one's place by having the same steal().
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/random.hpp"
#include "queue/steal.hpp"

namespace bwos {

/// What an attempt to steal gave: taken, lost, or neither where there was nothing to take.
struct steal_outcome {
  unsigned victim = 0;     ///< Taken: of which worker,
  std::size_t block = 0;   ///< from which of its blocks,
  std::size_t count = 0;   ///< and how many entries. 0: none was taken.
  unsigned conflicts = 0;  ///< Claims that others won.

  [[nodiscard]] bool taken() const noexcept { return count != 0; }
  /// There was something, but others were faster every time.
  [[nodiscard]] bool lost() const noexcept { return count == 0 && conflicts != 0; }
};

/// Claims tried on one block while others win them. Guessed: each loss means that somebody else has
/// taken entries there, so few are left.
inline constexpr unsigned claims_per_block_max = 4;

/// Up to `max` (>= 1) of the oldest entries of one block. `victim`: a queue's thief; the outcome's
/// worker is the caller's to fill in.
template <class Thief, class Value>
steal_outcome steal_from_block(const Thief& victim, std::size_t block, Value* out,
                               std::size_t max) noexcept {
  steal_outcome outcome{.block = block};
  while (outcome.conflicts < claims_per_block_max) {
    const steal_result result = victim.steal(block, out, max);
    outcome.count = result.count;
    if (result.status != steal_status::conflict) break;
    ++outcome.conflicts;
  }
  return outcome;
}

/// The other workers from a random one on; in each the blocks in use from a random one on (OSDI
/// '23, section 4.3, within the published range); up to a batch of the first block that has
/// something. What it passes over for its bounds, the look before parking finds.
class random_steal {
 public:
  /// Workers looked at in one attempt, so that its cost does not grow with those that sleep. A
  /// guess: all others of up to nine workers.
  static constexpr unsigned victims_max = 8;
  /// Blocks looked at in one victim. A guess: of the blocks in use mostly the front one alone is
  /// closed to thieves, so that the second look hits, unless other thieves have been there.
  static constexpr std::size_t blocks_max = 4;

  /// `batch`: entries taken at most, at least 1.
  random_steal(std::uint64_t seed, std::size_t batch) noexcept : random_(seed), batch_(batch) {}

  /// One attempt of worker `self` of `workers`. `is_parked(i)`: worker i sleeps, and is passed
  /// over. `thief_of(i)` is the thief's side of its queue; `out` has room for a batch.
  template <class IsParked, class ThiefOf, class Value>
  steal_outcome steal(unsigned self, unsigned workers, const IsParked& is_parked,
                      const ThiefOf& thief_of, Value* out) noexcept {
    steal_outcome outcome;
    if (workers < 2) return outcome;
    const unsigned others = workers - 1;
    unsigned victim = (self + 1 + random_.below(others)) % workers;
    unsigned conflicts = 0;
    unsigned looked_at = 0;
    for (unsigned i = 0; i < workers && looked_at < victims_max;
         ++i, victim = after(victim, workers)) {
      if (victim == self || is_parked(victim)) continue;
      ++looked_at;
      outcome = steal_from(thief_of(victim), out);
      conflicts += outcome.conflicts;
      if (!outcome.taken()) continue;
      outcome.victim = victim;
      break;
    }
    outcome.conflicts = conflicts;
    return outcome;
  }

 private:
  /// Without a division: there may be hundreds that sleep.
  static constexpr unsigned after(unsigned worker, unsigned workers) noexcept {
    return worker + 1 == workers ? 0 : worker + 1;
  }

  template <class Thief, class Value>
  steal_outcome steal_from(const Thief& victim, Value* out) noexcept {
    steal_outcome outcome;
    const block_range range = victim.in_use();
    const std::size_t start = random_.below(static_cast<std::uint32_t>(range.count));
    unsigned conflicts = 0;
    for (std::size_t i = 0; i < std::min(range.count, blocks_max) && !outcome.taken(); ++i) {
      const std::size_t block = range[(start + i) % range.count];
      if (!victim.sample(block)) continue;
      outcome = steal_from_block(victim, block, out, batch_);
      conflicts += outcome.conflicts;
    }
    outcome.conflicts = conflicts;
    return outcome;
  }

  random_source random_;
  std::size_t batch_;
};

}  // namespace bwos
