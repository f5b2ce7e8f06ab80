// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <source_location>
#include <string>
#include <utility>

#include "clock.hpp"
#include "fiber.hpp"

namespace bwos {
struct worker_context;
namespace detail {
class forks;
}
}  // namespace bwos

namespace bwos::simulation {

/// One thread of the simulated machine.
struct thread {
  enum class state : std::uint8_t {
    runnable,
    waking,     ///< What it waited for has happened; it gets a processor soon.
    preempted,  ///< Something else has its processor.
    computing,  ///< Inside a task, for a time that is known.
    waiting,    ///< For another thread, the kernel, or its deadline.
    ended,
  };

  thread(std::string what, unsigned number, std::function<void()> body)
      : name(std::move(what)), index(number), stack(std::move(body)) {}

  const std::string name;
  const unsigned index;
  fiber stack;
  state now = state::runnable;
  std::uint64_t sleeps = 0;          ///< Tells one sleep from the next.
  const void* waits_for = nullptr;   ///< waiting: the word or the set.
  std::uint64_t waits_in_order = 0;  ///< waiting: who came first.
  bool timed_out = false;
  nanoseconds ran_last = 0;  ///< When it last had a processor.
  unsigned rank = 0;         ///< chooser's.
  worker_context* context = nullptr;
  detail::forks* forks = nullptr;

  // Its latest step, for reports.
  const char* doing = "begins";
  std::source_location at;
};

}  // namespace bwos::simulation
