// SPDX-License-Identifier: Apache-2.0
// What must hold whenever all threads of a pool are inside tasks, or wait for more than a moment:
// nothing that deserves a wake-up lies beside a sleeper. By README.md's rule that is work from
// outside, a second task that one has posted, what takes its owner more than 30 us by the mean of
// its tasks, and the lane's below its cap. Nothing else lies there for longer than the monitor's
// two milliseconds, or seven where all tasks have been short.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "simulated_pool.hpp"

namespace bwos::simulation {

class checks {
 public:
  /// Looks before each jump of the machine's clock from now on.
  explicit checks(simulated_pool& pool);
  checks(const checks&) = delete;
  checks& operator=(const checks&) = delete;

  /// After a poll the queue holds no more than a batch. For a pool of one worker that runs events
  /// alone.
  void expect_batches();

 private:
  /// What the monitor has to find: it lies beside a sleeper from `since` on.
  struct waiting {
    nanoseconds since = never;
    nanoseconds preempted = 0;  ///< Threads' losses until then.
    std::uint64_t key = 0;      ///< Tells one from the next.
    bool closely = true;        ///< The monitor has looked closely all the while.
  };

  void look(nanoseconds until);
  void check(nanoseconds until);
  void check_sleepers() const;
  void check_open() const;
  void check_lane(nanoseconds until);
  void check_timers(nanoseconds until);
  void check_victim(unsigned worker) const;
  void check_monitor(unsigned worker, nanoseconds until);
  void lies_there(waiting& what, std::uint64_t key) const;
  [[nodiscard]] bool too_long(const waiting& what, nanoseconds most, nanoseconds until) const;
  [[nodiscard]] bool is_deserved(const task& laned) const;

  [[nodiscard]] bool sleeps(unsigned worker) const noexcept;
  [[nodiscard]] bool has_sleeper(const timer_service& timers) const noexcept;

  simulated_pool& pool_;
  machine& here_;
  std::vector<waiting> behind_tasks_;  // a worker's queue
  waiting in_lane_;
  waiting in_timers_;
  nanoseconds preempted_ = 0;  // at the last look
};

}  // namespace bwos::simulation
