// SPDX-License-Identifier: Apache-2.0
#include "scheduler/sleeper.hpp"

#include <utility>

#include "scheduler/scheduler.hpp"
#include "scheduler/worker.hpp"

namespace bwos {
namespace {

/// What gets ready while all who are awake are in long tasks waits for so long at most.
constexpr int nap_ms = 1;

}  // namespace

bool sleeper::sleep(continuation_chain& ready) noexcept {
  if (home_ == nullptr) {
    // Deadlines are the monitor's to watch, which a worker alone does not have.
    parker_.wait(all_.slots() == 1 ? all_.timers.wait_ms() : -1);
    if (all_.timers.due()) all_.timers.advance(ready);
    return false;
  }
  bool token = false;
  if (!std::exchange(napped_in_vain_, false) && is_watched()) {
    counters_.nap.add(1);
    token = home_->wait_aside(ready, nap_ms);
    napped_in_vain_ = ready.empty() && !token;  // no traffic: no naps
  } else {
    token = home_->wait(ready);
  }
  counters_.polls.add(1);
  return token && home_->take_token();
}

/// Whether another worker of the shared set will soon look at it: it is awake, and neither in a
/// long task nor likely to begin one. If all who sleep waited in the set, the kernel would wake one
/// for each request that comes while others are at work, though those would take it with their next
/// batch: measured, with clients on the same processors, .4 context switches a request instead of
/// .05, and half as much CPU again. The last one to park finds nobody, and waits in the set.
bool sleeper::is_watched() const noexcept {
  if (!in_group_) return false;
  const ticks fresh = now_ticks() - 2 * slice::long_task_us * all_.ticks_per_us;
  return all_.any_in_group(word_, [&](const worker& other) {
    const slice& time = other.time();
    return other.index != index_ && time.turn_began() > fresh && !time.is_often_long();
  });
}

void sleeper::wake() noexcept {
  if (home_ == nullptr) {
    parker_.wake();
  } else {
    home_->wake();
  }
}

}  // namespace bwos
