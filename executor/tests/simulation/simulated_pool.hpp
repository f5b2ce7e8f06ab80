// SPDX-License-Identifier: Apache-2.0
// The shipped scheduler, workers and monitor on threads of a simulated machine, with simulated
// reactors: what pool_core is elsewhere.
#pragma once

#include <bwos/options.hpp>
#include <cstddef>
#include <memory>
#include <vector>

#include "machine.hpp"
#include "scheduler/scheduler.hpp"
#include "scheduler/worker.hpp"
#include "simulated_reactor.hpp"
#include "task.hpp"

namespace bwos::simulation {

/// How a pool's workers wait.
enum class waits : std::uint8_t {
  in_groups,   ///< Up to `group` workers share a reactor.
  by_itself,   ///< Each in a reactor of its own.
  on_a_futex,  ///< No reactors.
};

struct shape {
  unsigned workers = 1;
  waits how = waits::in_groups;
  unsigned group = 4;
  steal_kind steal = steal_kind::random;
  steal_choice steal_blocks = steal_choice::in_use;
  steal_amount steal_takes = steal_amount::batch;
};

class simulated_pool {
 public:
  simulated_pool(machine& here, const shape& wanted);
  simulated_pool(const simulated_pool&) = delete;
  simulated_pool& operator=(const simulated_pool&) = delete;

  /// Runs the machine to its end, then discards what never ran. Somebody has to stop the scheduler.
  void run();

  /// `work` is ready from `when` on, in the reactor of that worker.
  void arrive(unsigned worker, nanoseconds when, task& work);
  [[nodiscard]] bool has_reactors() const noexcept { return !reactors_.empty(); }
  [[nodiscard]] const std::vector<std::unique_ptr<simulated_reactor>>& reactors() const noexcept {
    return reactors_;
  }
  /// The machine's thread of that worker.
  [[nodiscard]] const thread& thread_of(unsigned worker) const noexcept {
    return *threads_[worker];
  }

  // Between steps.

  [[nodiscard]] bool has_something_to_steal(unsigned worker) noexcept;
  /// Tasks in the workers' own queues.
  [[nodiscard]] std::size_t in_own_queues() const noexcept {
    return book.queued() - all.inject.size_relaxed();
  }

  const shape form;

 private:
  static options options_of(const shape& wanted);
  static std::vector<std::unique_ptr<simulated_reactor>> groups_of(machine& here,
                                                                   const shape& wanted);

  const options settings_;
  std::vector<std::unique_ptr<simulated_reactor>> reactors_;

 public:
  scheduler all;
  ledger book;

 private:
  machine& here_;
  std::vector<const thread*> threads_;
};

}  // namespace bwos::simulation
