// SPDX-License-Identifier: Apache-2.0
// How long what a reactor has ready waits until it runs. Nobody stamps work for it: a timer of the
// reactor goes off every interval, its event waits in the kernel with those of the sockets, its
// continuation in a worker's queue with theirs, and its lateness is what they wait.
//
// The timer stays with its reactor. Its continuation may be stolen, as the work around it may, and
// then tells how long that has waited until then. Where stealing is off and a set is shared, a
// worker inside long work may keep it, and the age that of the whole set for so long.
#pragma once

#include <bwos/continuation.hpp>
#include <bwos/timer_entry.hpp>
#include <chrono>
#include <cstdint>

#include <bwos/base/atomic.hpp>
#include "io/timer/timer_service.hpp"

namespace bwos {

class queue_age : timer_entry, continuation {
 public:
  using clock = std::chrono::steady_clock;

  explicit queue_age(timer_service& timers) noexcept
      : timer_entry(&on_due), continuation(&run), timers_(timers) {}

  /// Before the reactor's workers start.
  void start(std::chrono::milliseconds interval) noexcept;

  /// Any thread: how late the timer was last, or is now if that is more. Resolution 1 ms; zero if
  /// it was not started.
  [[nodiscard]] std::chrono::milliseconds get(clock::time_point now) const noexcept;

 private:
  static void on_due(timer_entry& self) noexcept;
  static void run(continuation& self, disposition how) noexcept;

  timer_service& timers_;
  std::int64_t interval_ms_ = 0;
  atomic<bool> queued_{false};                 // the continuation is on its way
  atomic<std::int64_t> due_ms_{wheel::never};  // what is on its way, or comes next, was due
  atomic<std::int64_t> last_ms_{0};
};

}  // namespace bwos
