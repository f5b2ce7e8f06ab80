// SPDX-License-Identifier: Apache-2.0
// Where the handlers of a batch of calls run, and for how long a connection runs them before others
// get their turn. They run one after the other on the thread that has read them, without a queue.
// What is left of a batch that takes long is for workers that have nothing to do. Methods that are
// long on average are for the lane, as HTTP's routes are.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "base/mean_time.hpp"
#include "base/ticks.hpp"
#include "http/route_times.hpp"
#include "net/executor.hpp"

namespace bwos::server::rpc {

/// Where a handler begins.
enum class place : std::uint8_t { here, workers, lane };

/// After the handlers of a batch have taken so long, the rest is handed on if somebody is idle. As
/// a pipelining connection's slice: less than what waking somebody up costs is not worth it.
inline constexpr std::chrono::microseconds batch_slice{50};
/// After its handlers have taken so long, a connection sends what is answered, and yields. Guessed:
/// a hundred calls of little work and their answers need less, so that they go out in one send.
inline constexpr std::chrono::microseconds turn_slice{200};
/// The clock is read after each step of a turn, but up to so many of them where they are little: as
/// many as have not taken an eighth of the slice.
inline constexpr unsigned steps_per_look_max = 8;
/// To hand a handler on costs about as much as running one that is shorter than this on average.
inline constexpr std::chrono::microseconds brief_handler{2};
/// Of those the clock is read for one in so many.
inline constexpr unsigned brief_handlers_per_look = 32;

/// One connection's, its runner's to use.
class batch_turn {
 public:
  using ticks = metrics::ticks;

  /// `lane_threshold`: methods above it are long; 0: none is.
  batch_turn(std::chrono::microseconds lane_threshold, ticks ticks_per_ms) noexcept
      : brief_(in_ticks(brief_handler, ticks_per_ms)),
        slice_(in_ticks(batch_slice, ticks_per_ms)),
        turn_(in_ticks(turn_slice, ticks_per_ms)),
        long_(in_ticks(lane_threshold, ticks_per_ms)) {}

  /// `goes_on`: with what the turn before has left of its batch.
  void begin(bool goes_on = false) noexcept {
    if (!goes_on) spent_ = 0;
    handed_on_ = 0;
    hands_on_ = false;
    begun_ = 0;
    steps_per_look_ = 1;
    is_over_ = false;
  }

  /// Asked before each step but the first: whether the turn is over. What was handed on counts as
  /// if it had been run: a batch must not fill the queues that others' work stands in either. It
  /// stays over until begin().
  [[nodiscard]] bool is_over() noexcept {
    if (is_over_) return true;
    if (begun_ == 0) {
      begun_ = now_ = metrics::now_ticks();
      return false;
    }
    if (++steps_ >= steps_per_look_) look();
    const ticks passed = now_ > begun_ ? now_ - begun_ : 0;
    return is_over_ = passed + handed_on_ > turn_;
  }

  /// A method of which nothing is known is not.
  [[nodiscard]] bool is_long(const mean_time& method) const noexcept {
    return long_ != 0 && method.get() > long_;
  }

  /// `is_last`: nothing of the batch is left behind it.
  [[nodiscard]] place place_of(const mean_time& method, bool is_last,
                               const executor& workers) noexcept {
    if (is_long(method)) return place::lane;
    const ticks mean = method.get();
    if (spent_ < slice_ || mean <= brief_) return place::here;
    hands_on_ = hands_on_ || (!is_last && workers.has_idle());
    if (!hands_on_) return place::here;
    handed_on_ += mean;
    return place::workers;
  }

  /// Runs a handler here and notes how long it took, if that is not known to be little.
  template <class Run>
  bool run(mean_time& method, Run handler) {
    const ticks mean = method.get();
    if (mean != 0 && mean <= brief_ && ++brief_runs_ % brief_handlers_per_look != 0) {
      return handler();
    }
    const ticks begun = metrics::now_ticks();
    const bool has_ended = handler();
    now_ = metrics::now_ticks();
    const ticks took = now_ - begun;
    method.note(took, counted_most());
    spent_ += took;
    return has_ended;
  }

  /// See mean_time::note().
  [[nodiscard]] ticks counted_most() const noexcept {
    return thresholds_counted * (long_ != 0 ? long_ : slice_);
  }

 private:
  void look() noexcept {
    const ticks before = now_;
    now_ = metrics::now_ticks();
    const bool is_little = now_ - before < turn_ / steps_per_look_max;
    steps_per_look_ = is_little ? std::min(2 * steps_per_look_, steps_per_look_max) : 1;
    steps_ = 0;
  }

  static ticks in_ticks(std::chrono::microseconds time, ticks ticks_per_ms) noexcept {
    return static_cast<ticks>(time.count()) * ticks_per_ms / 1000;
  }

  const ticks brief_;
  const ticks slice_;
  const ticks turn_;
  const ticks long_;
  ticks spent_ = 0;      // by the handlers of the batch
  ticks handed_on_ = 0;  // what the handlers of the turn that were handed on take on average
  ticks begun_ = 0;      // the turn; 0: not yet
  ticks now_ = 0;        // when the clock was read last
  unsigned steps_ = 0;   // since then
  unsigned steps_per_look_ = 1;
  bool is_over_ = false;
  unsigned brief_runs_ = 0;
  bool hands_on_ = false;  // what is left of the batch
};

}  // namespace bwos::server::rpc
