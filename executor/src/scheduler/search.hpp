// SPDX-License-Identifier: Apache-2.0
// A worker's search for others' work, from its beginning to its end, and the last look before it
// sleeps. The search owns whether its worker counts as a searcher in the idle word (idle_set.hpp).
//
// ROLES  The worker alone calls it; of its victims it touches the thieves' side only.
//
// INVARIANTS
// S1  is_on() exactly while the idle word counts this worker as a searcher: begun by begin() or by
//     a poster's claim (claimed()), ended by end() or with the announcement of its parking.
// S2  What it found last is told once, by the call that asks what it gave.
// S3  A search that ended in the announcement of its worker's parking, whose last look then found
//     something, owes the look of a search's end: posters were excused by it, and that look ended
//     at the first thing it saw. A whole look that finds nothing pays the debt.
// Test: search_test.cpp
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <utility>

#include "scheduler/counters.hpp"
#include "scheduler/wake_policy.hpp"
#include "scheduler/worker_queue.hpp"
#include "steal/policy.hpp"

namespace bwos {

class scheduler;

class search {
 public:
  /// On its worker's thread, before others know of that worker.
  search(scheduler& all, unsigned index, unsigned word, worker_counters& counters);

  [[nodiscard]] bool is_on() const noexcept { return on_; }
  /// False: stealing is off, there is nobody to steal from, or enough workers search.
  [[nodiscard]] bool begin() noexcept;
  /// A poster has claimed this worker while it slept: it is a searcher.
  void claimed(bool by_poster) noexcept { on_ = by_poster; }
  /// Its worker has found work. True: it was the last searcher of its word, and others sleep, of
  /// that word or another: the worker must look whether there is more (idle_set.hpp, I2).
  [[nodiscard]] bool end() noexcept {
    return (on_ || owes_look_) && end_it();  // before each task: mostly there is nothing to end
  }
  /// Its worker announces that it parks: whether that ends the search, too.
  [[nodiscard]] bool give_up() noexcept {
    owes_look_ = owes_look_ || on_;
    return std::exchange(on_, false);
  }
  /// Its worker has looked everywhere, and seen nothing.
  void looked_everywhere() noexcept { owes_look_ = false; }

  /// Tasks of another worker, oldest first; empty: none were found. Valid until the next call.
  [[nodiscard]] std::span<continuation* const> steal() noexcept;

  /// Something to steal, as a look at all that is in use of every other worker has found it.
  struct sighting {
    unsigned victim = 0;
    std::size_t block = 0;
    bool any = false;
    bool more = false;  ///< Another block has something as well.
  };
  [[nodiscard]] sighting look() const noexcept;
  /// Steals what was sighted, if it is still there.
  [[nodiscard]] std::span<continuation* const> steal(const sighting& where) noexcept;

  /// What the last steal gave, or what else the worker has found (note()).
  void note(found what) noexcept { gave_ = what; }
  [[nodiscard]] found take_gave() noexcept { return std::exchange(gave_, found::nothing); }

 private:
  static constexpr std::size_t room = options::steal_batch_max;  // for what one steal takes

  bool end_it() noexcept;
  std::span<continuation* const> taken_by(const steal_outcome& outcome) noexcept;

  scheduler& all_;
  const unsigned index_;
  const unsigned word_;
  worker_counters& counters_;
  bool on_ = false;
  bool owes_look_ = false;
  found gave_ = found::nothing;
  steal_policy policy_;
  std::array<continuation*, room> stolen_{};
};

}  // namespace bwos
