// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>

#include "fiber.hpp"

namespace bwos {
struct worker_context;
namespace detail {
class forks;
}
}  // namespace bwos

namespace bwos::simulation {

/// Virtual time within a thread.
using picoseconds = std::uint64_t;

/// One thread of the simulated machine, which has a CPU to itself.
struct thread {
  enum class state : std::uint8_t { runnable, waiting, ended };

  thread(std::string what, unsigned number, std::function<void()> body)
      : name(std::move(what)), index(number), stack(std::move(body)) {}

  const std::string name;
  const unsigned index;  ///< Of its CPU as well.
  fiber stack;
  state now = state::runnable;
  picoseconds time = 0;    ///< Its clock; while it waits, when that began.
  picoseconds waited = 0;  ///< Of that, for others or a deadline.
  const void* waits_for = nullptr;
  std::uint64_t sleeps = 0;  ///< waiting: tells this sleep from the others, in their order.
  bool timed_out = false;
  worker_context* context = nullptr;
  detail::forks* forks = nullptr;
};

}  // namespace bwos::simulation
