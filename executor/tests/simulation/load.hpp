// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "simulated_pool.hpp"

namespace bwos::simulation {

/// What a load consists of. "One in n": 0 is never.
struct mix {
  unsigned tasks_max = 300;
  unsigned bursts = 0;  ///< Of events.
  unsigned burst_max = 1;
  nanoseconds burst_gap_max = 200 * microsecond;
  unsigned posters = 0;  ///< Threads outside.
  unsigned posts_max = 1;
  nanoseconds post_gap_max = 50 * microsecond;
  unsigned laned_posts_one_in = 0;  ///< Of those from outside.
  nanoseconds short_min = 1 * microsecond;
  nanoseconds short_max = 10 * microsecond;
  unsigned long_one_in = 0;
  nanoseconds long_min = 100 * microsecond;
  nanoseconds long_max = 5 * millisecond;
  unsigned forks_one_in = 0;
  unsigned children_min = 1;
  unsigned children_max = 4;
  unsigned depth = 3;  ///< Of trees of tasks.
  unsigned laned_one_in = 0;
  unsigned yields_one_in = 0;
  unsigned sleeps_one_in = 0;
};

/// Plans a load by the machine's seed, and starts the threads that bring it.
class load {
 public:
  load(simulated_pool& pool, const mix& parts);
  load(const load&) = delete;
  load& operator=(const load&) = delete;

 private:
  [[nodiscard]] bool one_in(unsigned n) noexcept { return n != 0 && random_.below(n) == 0; }
  nanoseconds between(nanoseconds least, nanoseconds most) noexcept;
  nanoseconds gap(nanoseconds most) noexcept;
  nanoseconds length() noexcept;
  task& plan(unsigned depth);
  void plan_children(task& parent, unsigned depth);
  void plan_bursts();
  void start_poster(unsigned index);

  simulated_pool& pool_;
  random_source& random_;
  const mix mix_;
};

}  // namespace bwos::simulation
