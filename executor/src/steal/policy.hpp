// SPDX-License-Identifier: Apache-2.0
// How a worker steals, in three parts that are chosen by the pool's options and go together in any
// way: whom from (victims.hpp), which block (below), how much (amount.hpp). Only thieves run this:
// of a victim it touches the thieves' side of its queue, and the queue is the same for all.
//
// A policy is an object of one worker. Another way to choose victims is one more type in
// victims.hpp, one more name in selector and make_selector() below, and in options' steal_kind.
#pragma once

#include <algorithm>
#include <bwos/options.hpp>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>
#include <variant>

#include <bwos/queue/steal.hpp>
#include "base/random.hpp"
#include "steal/amount.hpp"
#include "steal/topology.hpp"
#include "steal/victims.hpp"

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

class steal_policy {
 public:
  /// Blocks looked at in one victim. A guess: of the blocks in use mostly the front one alone is
  /// closed to thieves, so that the second look hits, unless other thieves have been there.
  static constexpr std::size_t blocks_max = 4;
  /// Blocks sampled in one attempt of the probabilistic choice. The paper's thieves go on until
  /// they find something; ours have a look before they park that finds everything. A guess: of one
  /// open block in a ring of 128 an attempt then finds two fifths, of nine or more nearly all.
  static constexpr unsigned samples_max = 64;

  /// By validated `settings`, of which steal_kind::none never steals. `room` (>= 1): entries that
  /// `out` of steal() has room for. `places`, for steal_kind::topology: where workers are; it
  /// outlives this, and null is as if nothing were known.
  steal_policy(const options& settings, std::uint64_t seed, std::size_t room,
               const worker_places* places = nullptr)
      : random_(seed),
        choice_(settings.steal_blocks),
        amount_(settings.steal_takes, settings.steal_batch, room),
        selector_(make_selector(settings, places)) {}

  /// One attempt of worker `self` of `workers`. `is_parked(i)`: worker i sleeps, and is passed
  /// over. `thief_of(i)` is the thief's side of its queue; `out` has the room that was told. What
  /// it passes over for its bounds, the look before parking finds.
  template <class IsParked, class ThiefOf, class Value>
  steal_outcome steal(unsigned self, unsigned workers, const IsParked& is_parked,
                      const ThiefOf& thief_of, Value* out) noexcept {
    if (workers < 2) return {};
    const other_workers<IsParked, ThiefOf> others{self, workers, is_parked, thief_of};
    return std::visit(
        [&](auto& victims) {
          static_assert(victim_selector<std::remove_reference_t<decltype(victims)>,
                                        other_workers<IsParked, ThiefOf>>);
          const steal_outcome outcome = choice_ == steal_choice::probabilistic
                                            ? sample(victims, others, out)
                                            : scan(victims, others, out);
          if constexpr (requires { victims.took_from(0U); }) {
            if (outcome.taken()) victims.took_from(outcome.victim);
          }
          return outcome;
        },
        selector_);
  }

  [[nodiscard]] const amount_to_steal& amount() const noexcept { return amount_; }

 private:
  using selector = std::variant<random_victims, sequential_victims, last_victim_first, best_of_two,
                                best_of_many, nearest_first>;

  static selector make_selector(const options& settings, const worker_places* places) {
    switch (settings.steal) {
      case steal_kind::random:
      case steal_kind::none:
        break;
      case steal_kind::sequential:
        return sequential_victims();
      case steal_kind::last_victim:
        return last_victim_first();
      case steal_kind::best_of_two:
        return best_of_two();
      case steal_kind::best_of_many:
        return best_of_many();
      case steal_kind::topology:
        if (places != nullptr) return nearest_first(*places, places->workers_max());
        break;
    }
    return random_victims();
  }

  /// The victims in their order, until one gives something.
  template <class Selector, class Others, class Value>
  steal_outcome scan(Selector& victims, const Others& others, Value* out) noexcept {
    steal_outcome outcome;
    unsigned conflicts = 0;
    unsigned looked_at = 0;
    victims.begin(others, random_);
    while (looked_at < victims_max) {  // ends: next() comes to nobody
      const unsigned victim = victims.next();
      if (victim == nobody) break;
      if (others.is_parked(victim)) continue;
      ++looked_at;
      outcome = scan_blocks(others.thief_of(victim), out);
      conflicts += outcome.conflicts;
      outcome.victim = victim;
      if (outcome.taken()) break;
    }
    outcome.conflicts = conflicts;
    return outcome;
  }

  /// The blocks in use from a random one on.
  template <class Thief, class Value>
  steal_outcome scan_blocks(const Thief& victim, Value* out) noexcept {
    steal_outcome outcome;
    const block_range range = victim.in_use();
    const std::size_t start = random_.below(static_cast<std::uint32_t>(range.count));
    unsigned conflicts = 0;
    for (std::size_t i = 0; i < std::min(range.count, blocks_max) && !outcome.taken(); ++i) {
      outcome = take(victim, range[(start + i) % range.count], out);
      conflicts += outcome.conflicts;
    }
    outcome.conflicts = conflicts;
    return outcome;
  }

  /// OSDI '23, section 3.4, the "randomized stealing procedure" of FIFO queues: of one victim after
  /// the other one random block of all that its ring has, until one has something, which is stolen
  /// from that very block. So a queue is stolen from by chances in proportion to the blocks that it
  /// has open, where each victim is named as often as any other.
  template <class Selector, class Others, class Value>
  steal_outcome sample(Selector& victims, const Others& others, Value* out) noexcept {
    steal_outcome outcome;
    unsigned conflicts = 0;
    unsigned samples = 0;
    unsigned passed_over = 0;
    unsigned named = 0;  // since begin(), and awake
    victims.begin(others, random_);
    // Ends: each turn is a sample, or somebody passed over, or follows on one of these.
    while (samples < samples_max && passed_over <= others.workers) {
      const unsigned victim = victims.next();
      if (victim == nobody) {
        if (std::exchange(named, 0) == 0) break;  // all sleep
        victims.begin(others, random_);
        continue;
      }
      if (others.is_parked(victim)) {
        ++passed_over;
      } else {
        ++named;
        ++samples;
        outcome = sample_block(others.thief_of(victim), out);
        conflicts += outcome.conflicts;
        outcome.victim = victim;
        if (outcome.taken()) break;
      }
      if constexpr (Selector::draws_evenly) victims.begin(others, random_);
    }
    outcome.conflicts = conflicts;
    return outcome;
  }

  /// A random block of all. What is not in use has nothing, and need not be looked at.
  template <class Thief, class Value>
  steal_outcome sample_block(const Thief& victim, Value* out) noexcept {
    const block_range range = victim.in_use();
    const std::size_t drawn = random_.below(static_cast<std::uint32_t>(range.ring));
    return drawn < range.count ? take(victim, range[drawn], out) : steal_outcome{};
  }

  template <class Thief, class Value>
  steal_outcome take(const Thief& victim, std::size_t block, Value* out) noexcept {
    const std::size_t open = victim.open_entries(block);
    if (open == 0) return {};
    return steal_from_block(victim, block, out, amount_.of(open));
  }

  random_source random_;
  steal_choice choice_;
  amount_to_steal amount_;
  selector selector_;
};

}  // namespace bwos
