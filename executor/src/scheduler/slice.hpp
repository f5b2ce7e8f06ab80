// SPDX-License-Identifier: Apache-2.0
// What a worker knows of time: when its slice of tasks is over, how long its tasks take, and since
// when it has been at it.
//
// ROLES  The worker calls everything that changes something. Any thread may ask turn_began() and
// long_fraction(). The clock is the caller's: a slice is told what time it is.
//
// A TURN of the loop is a slice of tasks and a look at the reactor. A RUN is an uninterrupted
// sequence of tasks from the own queue; a slice may consist of several.
// Test: slice_test.cpp
#pragma once

#include <bwos/options.hpp>
#include <cstddef>
#include <utility>

#include <bwos/base/atomic.hpp>
#include "base/relaxed_value.hpp"
#include "base/ticks.hpp"

namespace bwos {

class slice {
 public:
  /// A task is long that takes more; and a worker that has not begun a turn for twice as long may
  /// be in one.
  static constexpr ticks long_task_us = 50;
  /// While tasks take less than a microsecond on average, the clock (8.5 ns to read on the machine
  /// where this was measured, a third of a short task) is looked at once in so many.
  static constexpr unsigned short_tasks_per_look = 8;
  /// long_fraction() is in units of one part in so many.
  static constexpr unsigned whole = 65'536;
  /// With more long tasks than these a worker does not soon look at its reactor, or at its queue,
  /// again. Preemption makes one task in a hundred seem long where a load generator is on the same
  /// processors; with one in eleven long, naps take p99 of the others from .8 to 1.3 ms.
  static constexpr unsigned long_fraction_max = whole / 25;

  slice(const options& settings, ticks ticks_per_us) noexcept
      : tasks_max_(settings.slice_tasks),
        length_(static_cast<ticks>(settings.slice.count()) * ticks_per_us),
        us_(ticks_per_us),
        mean_task_(ticks_per_us) {}  // not known yet: the clock is looked at after each task

  /// A new turn.
  void begin(ticks now) noexcept {
    tasks_ = 0;
    ended_early_ = false;
    end_ = now + length_;
    // [slice.turn.begin] relaxed: publishes nothing but itself, written here alone. Partner:
    // [slice.turn.read].
    turn_began_.store(now, std::memory_order_relaxed);
  }
  /// The worker goes to sleep.
  void end_turn() noexcept {
    // [slice.turn.end] seq_cst: before its looks at others' turns. Partner: [slice.turn.read].
    turn_began_.store(0, std::memory_order_seq_cst);
  }
  /// The running task wants the reactor to have its turn next.
  void end_early() noexcept { ended_early_ = true; }
  [[nodiscard]] bool ended_early() const noexcept { return ended_early_; }

  void begin_run(ticks now) noexcept {
    run_began_ = looked_ = now;
    ran_ = 0;
    stride_ = mean_task_ < us_ ? short_tasks_per_look : 1;
  }
  /// A task of the run has ended. True: note_time() wants to be told what time it is.
  [[nodiscard]] bool count_task() noexcept {
    ++ran_;
    ++tasks_;
    return ran_ % stride_ == 0;
  }
  /// A task, or a few short ones, have ended since the last look at the clock.
  void note_time(ticks now) noexcept { note_length(now - std::exchange(looked_, now)); }
  /// Run in this slice.
  [[nodiscard]] std::size_t tasks() const noexcept { return tasks_; }
  /// Too many tasks, or too much time, or it was asked to end.
  [[nodiscard]] bool spent() const noexcept {
    return tasks_ >= tasks_max_ || looked_ >= end_ || ended_early_;
  }
  /// Whether end_run() wants to be told the time.
  [[nodiscard]] bool lacks_time() const noexcept { return ran_ % stride_ != 0; }
  /// The run is over; note_time() has been called if lacks_time(). Returns its tasks.
  std::size_t end_run() noexcept {
    if (ran_ != 0) mean_task_ = (7 * mean_task_ + (looked_ - run_began_) / ran_) / 8;
    return ran_;
  }
  /// What ran outside of a run took so long.
  void note_length(ticks length) noexcept {
    const unsigned now = long_fraction();
    const bool is_long = length > long_task_us * us_;
    long_fraction_.set(now - now / 256 + (is_long ? whole / 256 : 0));
  }

  /// A moving average over runs, in ticks.
  [[nodiscard]] ticks mean_task() const noexcept { return mean_task_; }

  // Any thread.

  /// When the present turn began: a slice of tasks at most, unless one does not end. 0: the worker
  /// is parked, or has not started.
  [[nodiscard]] ticks turn_began() const noexcept {
    // [slice.turn.read] seq_cst: of two workers that go to sleep at once, one sees that the other
    // does (sleeper::is_watched). Partner: [slice.turn.end], [slice.turn.begin].
    return turn_began_.load(std::memory_order_seq_cst);
  }
  /// Which part of its tasks was long, a moving average. A hint.
  [[nodiscard]] unsigned long_fraction() const noexcept { return long_fraction_.get(); }
  [[nodiscard]] bool is_often_long() const noexcept { return long_fraction() > long_fraction_max; }

 private:
  const unsigned tasks_max_;
  const ticks length_;
  const ticks us_;
  ticks mean_task_;
  ticks end_ = 0;
  ticks run_began_ = 0;
  ticks looked_ = 0;  // when the clock was last read
  std::size_t ran_ = 0;
  unsigned stride_ = 1;
  std::size_t tasks_ = 0;
  bool ended_early_ = false;
  atomic<ticks> turn_began_{0};
  relaxed_value<unsigned> long_fraction_;
};

}  // namespace bwos
