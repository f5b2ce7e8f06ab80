// SPDX-License-Identifier: Apache-2.0
// Whom a worker wakes, and why. It wakes one sleeper, of its own group if there is one, and only
// when a reason here says so: a wake-up must be earned by work that its worker will not reach soon.
// What was not worth a wake-up and turns out to wait behind a long task, the monitor finds.
// Test: wake_policy_test.cpp
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/ticks.hpp"

namespace bwos {

/// A worker's last look at the work of others.
enum class found : std::uint8_t { nothing, one, more };

enum class wake_reason : std::uint8_t {
  none,
  backlog,  ///< What waits behind the running task takes its worker longer than a wake-up costs.
  asked,    ///< The running task has asked for it (wake_rule::at_once).
  posts,    ///< The running task has posted something that does not run next.
  lane,     ///< The lane has work that one more worker may serve.
  found,    ///< The search, or the inject queue, has shown more than it gave.
  excused,  ///< The last searcher leaves, and somebody may have counted on it (idle_set.hpp, I2).
};

/// What a worker knows when it asks whether to wake somebody: before it runs a task, of which
/// nobody knows yet how long it will take; or, `posted` not 0, when that has posted.
struct wake_situation {
  std::size_t backlog = 0;     ///< Tasks that it has queued.
  ticks mean_task = 0;         ///< A task of its own takes so long.
  bool has_successor = false;  ///< Something waits behind the running task, open to thieves.
  unsigned posted = 0;         ///< By the running task.
  bool asked = false;          ///< By the running task, with this post.
  bool lane_open = false;
  found gave = found::nothing;    ///< The search that has just ended, or the inject queue.
  bool others_have_work = false;  ///< The last searcher has looked, and seen some.
};

/// A backlog is worth a wake-up when its owner will not reach its end sooner: about what waking a
/// thread costs. Measured on a prototype.
inline constexpr ticks worth_waking_us = 30;

[[nodiscard]] constexpr wake_reason why_wake(const wake_situation& now,
                                             ticks ticks_per_us) noexcept {
  const ticks worth = worth_waking_us * ticks_per_us;
  if (now.posted != 0) {
    if (now.asked) return wake_reason::asked;
    // One task alone is its poster's: it runs next, and waking somebody for it costs more than it;
    // should the running task be long, the monitor will. Two are a backlog, and where tasks are
    // coarse the poster has some way to go.
    return now.posted > 1 || now.has_successor || now.mean_task > worth ? wake_reason::posts
                                                                        : wake_reason::none;
  }
  if (now.lane_open) return wake_reason::lane;
  if (now.has_successor && now.backlog * now.mean_task > worth) return wake_reason::backlog;
  // The next one may search, because nobody knows yet how long these tasks take.
  if (now.gave == found::more) return wake_reason::found;
  return now.others_have_work ? wake_reason::excused : wake_reason::none;
}

}  // namespace bwos
