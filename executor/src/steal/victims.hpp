// SPDX-License-Identifier: Apache-2.0
// Whom to steal from, in which order: small types, one of which is a worker's (policy.hpp). What
// one that a user adds must have, is the concept below:
//
//   begin(others, random)  An attempt begins. `others` (other_workers) says who asks, how many
//                          workers there are, who is parked, and how long queues are.
//   next()                 The next victim; `nobody` when it has named each other worker once. It
//                          never names the asking one. It may name parked workers, whom the
//                          attempt passes over.
//   draws_evenly           Whether the first that next() names is any of the others with the same
//                          chance, drawn with each begin(). Then the probabilistic choice begins
//                          anew for each sample, so that what it hits is in proportion to lengths;
//                          else it goes on with next(), so that nobody is left out.
//   took_from(victim)      Optional: the attempt has taken something there.
//
// It is of one thread, and nothing in it may throw or allocate but its constructor.
// Test: victims_test.cpp
#pragma once

#include <algorithm>
#include <array>
#include <concepts>
#include <cstddef>
#include <vector>

#include "base/random.hpp"
#include "steal/topology.hpp"

namespace bwos {

/// Workers looked at in one attempt, so that its cost does not grow with those that sleep. A guess:
/// all others of up to nine workers.
inline constexpr unsigned victims_max = 8;

/// No worker has this index.
inline constexpr unsigned nobody = ~0U;

/// All workers but `self`, for one attempt of it.
template <class IsParked, class ThiefOf>
struct other_workers {
  unsigned self;
  unsigned workers;           ///< With itself, at least 2.
  const IsParked& is_parked;  ///< (worker): it sleeps.
  const ThiefOf& thief_of;    ///< (worker): the thief's side of its queue.

  /// Blocks in use of its queue, at least 1: what it publishes when it goes on to another block. A
  /// look at it disturbs the owner once in a block's worth of operations, not at every put.
  [[nodiscard]] std::size_t length(unsigned worker) const noexcept {
    return thief_of(worker).in_use().count;
  }
  /// One of them, each as likely as any other.
  [[nodiscard]] unsigned any(random_source& random) const noexcept {
    const unsigned drawn = random.below(workers - 1);
    return drawn < self ? drawn : drawn + 1;
  }
  /// The same of all but one more, where there is another.
  [[nodiscard]] unsigned any_but(unsigned left_out, random_source& random) const noexcept {
    unsigned drawn = random.below(workers - 2);
    if (drawn >= std::min(self, left_out)) ++drawn;
    if (drawn >= std::max(self, left_out)) ++drawn;
    return drawn;
  }
};

template <class Selector, class Others>
concept victim_selector = requires(Selector selector, const Others& others, random_source& random) {
  { selector.begin(others, random) } noexcept;
  { selector.next() } noexcept -> std::same_as<unsigned>;
  { Selector::draws_evenly } -> std::convertible_to<bool>;
};

namespace detail {

/// Once round all workers, leaving one out. Without divisions: there may be hundreds that sleep.
class round_walk {
 public:
  void begin(unsigned first, unsigned left_out, unsigned workers) noexcept {
    at_ = first;
    left_out_ = left_out;
    workers_ = left_ = workers;
  }
  unsigned next() noexcept {
    while (left_ != 0) {
      --left_;
      const unsigned here = at_;
      at_ = here + 1 == workers_ ? 0 : here + 1;
      if (here != left_out_) return here;
    }
    return nobody;
  }

 private:
  unsigned at_ = 0;
  unsigned left_out_ = 0;
  unsigned workers_ = 0;
  unsigned left_ = 0;
};

/// A few that were compared, the longest queue first, then all others from a random one on.
class best_first {
 public:
  template <class Others>
  void begin(const Others& others, random_source& random) noexcept {
    count_ = given_ = 0;
    walk_.begin(others.any(random), others.self, others.workers);
  }
  [[nodiscard]] unsigned count() const noexcept { return count_; }
  [[nodiscard]] bool has(unsigned worker) const noexcept {
    const auto end = compared_.begin() + count_;
    return std::any_of(compared_.begin(), end,
                       [&](const candidate& each) { return each.worker == worker; });
  }
  /// At most victims_max times. Of equal ones the first to be added comes first.
  void add(unsigned worker, std::size_t length) noexcept {
    unsigned place = count_++;
    for (; place != 0 && compared_[place - 1].length < length; --place) {
      compared_[place] = compared_[place - 1];
    }
    compared_[place] = {worker, length};
  }
  unsigned next() noexcept {
    if (given_ != count_) return compared_[given_++].worker;
    unsigned other = walk_.next();
    while (other != nobody && has(other)) other = walk_.next();
    return other;
  }

 private:
  struct candidate {
    unsigned worker = nobody;
    std::size_t length = 0;
  };
  std::array<candidate, victims_max> compared_{};
  unsigned count_ = 0;
  unsigned given_ = 0;
  round_walk walk_;
};

}  // namespace detail

/// From a random one on.
class random_victims {
 public:
  static constexpr bool draws_evenly = true;
  template <class Others>
  void begin(const Others& others, random_source& random) noexcept {
    const unsigned first = (others.self + 1 + random.below(others.workers - 1)) % others.workers;
    walk_.begin(first, others.self, others.workers);
  }
  unsigned next() noexcept { return walk_.next(); }

 private:
  detail::round_walk walk_;
};

/// From the next one on, always in the same order: "seq" in OSDI '23, section 6.2.3.
class sequential_victims {
 public:
  static constexpr bool draws_evenly = false;
  template <class Others>
  void begin(const Others& others, random_source&) noexcept {
    walk_.begin(others.self + 1 == others.workers ? 0 : others.self + 1, others.self,
                others.workers);
  }
  unsigned next() noexcept { return walk_.next(); }

 private:
  detail::round_walk walk_;
};

/// The one that gave something last, then the others from a random one on: "last".
class last_victim_first {
 public:
  static constexpr bool draws_evenly = false;
  template <class Others>
  void begin(const Others& others, random_source& random) noexcept {
    pending_ = last_;
    walk_.begin(others.any(random), others.self, others.workers);
  }
  unsigned next() noexcept {
    if (pending_ != nobody) {
      pending_ = nobody;
      return last_;
    }
    const unsigned other = walk_.next();
    return other != nobody && other == last_ ? walk_.next() : other;
  }
  void took_from(unsigned victim) noexcept { last_ = victim; }

 private:
  unsigned last_ = nobody;
  unsigned pending_ = nobody;
  detail::round_walk walk_;
};

/// The longer of the queues of two random workers that are awake: "best_of_two" (Mitzenmacher, "The
/// power of two choices in randomized load balancing"). Then the other, then the rest.
class best_of_two {
 public:
  static constexpr bool draws_evenly = false;
  template <class Others>
  void begin(const Others& others, random_source& random) noexcept {
    order_.begin(others, random);
    // A few draws must do: if most sleep, the rest of the order finds who does not.
    const unsigned wanted = std::min(2U, others.workers - 1);
    unsigned first = nobody;
    for (unsigned draws = 0; draws < victims_max && order_.count() < wanted; ++draws) {
      const unsigned drawn = first == nobody ? others.any(random) : others.any_but(first, random);
      if (others.is_parked(drawn)) continue;
      order_.add(drawn, others.length(drawn));
      first = drawn;
    }
  }
  unsigned next() noexcept { return order_.next(); }

 private:
  detail::best_first order_;
};

/// The longest queue of half of the others, as far as they are awake, from a random one on:
/// "best_of_many", which the paper takes to be half, too. Then these by their lengths, then the
/// rest.
class best_of_many {
 public:
  static constexpr bool draws_evenly = false;
  template <class Others>
  void begin(const Others& others, random_source& random) noexcept {
    order_.begin(others, random);
    const unsigned wanted = std::min(others.workers / 2, victims_max);
    detail::round_walk from;
    from.begin(others.any(random), others.self, others.workers);
    for (unsigned looks = 0; looks < 2 * victims_max && order_.count() < wanted; ++looks) {
      const unsigned other = from.next();
      if (other == nobody) break;
      if (!others.is_parked(other)) order_.add(other, others.length(other));
    }
  }
  unsigned next() noexcept { return order_.next(); }

 private:
  detail::best_first order_;
};

/// The nearest first: SMT siblings, then who shares the last cache, then the NUMA node, then the
/// rest; of each kind from a random one on.
class nearest_first {
 public:
  static constexpr bool draws_evenly = false;
  /// `places` outlives this; `workers_max`: as many as there can ever be.
  nearest_first(const worker_places& places, std::size_t workers_max) : places_(&places) {
    order_.reserve(workers_max);
  }
  template <class Others>
  void begin(const Others& others, random_source& random) noexcept {
    if (arranged_for_ != others.workers) arrange(others.self, others.workers);
    at_ = 0;
    for (level& each : levels_) {
      each.given = 0;
      const unsigned size = each.end - each.begin;
      each.next = each.begin + (size > 1 ? random.below(size) : 0);
    }
  }
  unsigned next() noexcept {
    for (; at_ != levels_.size(); ++at_) {
      level& here = levels_[at_];
      if (here.given == here.end - here.begin) continue;
      ++here.given;
      const unsigned chosen = here.next;
      here.next = chosen + 1 == here.end ? here.begin : chosen + 1;
      return order_[chosen];
    }
    return nobody;
  }

 private:
  struct level {
    unsigned begin = 0;  // in order_
    unsigned end = 0;
    unsigned next = 0;
    unsigned given = 0;
  };

  /// Once, and again when a thread attaches itself: workers stay where they were built.
  void arrange(unsigned self, unsigned workers) noexcept {
    order_.clear();
    for (unsigned kind = 0; kind < levels_.size(); ++kind) {
      levels_[kind].begin = static_cast<unsigned>(order_.size());
      for (unsigned other = 0; other < workers; ++other) {
        if (other == self || places_->between(self, other) != static_cast<proximity>(kind))
          continue;
        order_.push_back(other);
      }
      levels_[kind].end = static_cast<unsigned>(order_.size());
    }
    arranged_for_ = workers;
  }

  const worker_places* places_;
  unsigned arranged_for_ = 0;  // so many workers
  std::size_t at_ = 0;
  std::array<level, proximity_kinds> levels_{};
  std::vector<unsigned> order_;
};

}  // namespace bwos
