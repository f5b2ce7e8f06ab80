// SPDX-License-Identifier: Apache-2.0
// Stands in front of executor/src/base/system_call.hpp: the simulated machine's kernel. What is
// missing here, no file of the simulation calls.
#pragma once

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <source_location>

#include "machine.hpp"

namespace bwos::system_call {

using place = std::source_location;

inline long futex_wait(std::uint32_t* word, std::uint32_t expected, std::int64_t timeout_ms,
                       place at = place::current()) noexcept {
  using namespace simulation;
  machine& here = *machine::current();
  here.step("futex_wait", at);
  if (*word != expected) return -EAGAIN;
  nanoseconds deadline =
      timeout_ms < 0 ? never : here.now() + static_cast<nanoseconds>(timeout_ms) * millisecond;
  const bool interrupted = here.interrupts();
  if (interrupted) deadline = std::min(deadline, here.now() + here.random.below(2 * millisecond));
  if (here.wait(word, deadline, "futex_wait")) return 0;
  return interrupted ? -EINTR : -ETIMEDOUT;
}

inline long futex_wake_one(std::uint32_t* word, place at = place::current()) noexcept {
  simulation::step("futex_wake", at);
  return simulation::machine::current()->wake(word) ? 1 : 0;
}

inline void yield_processor() noexcept {
  simulation::machine::current()->yield();
}

}  // namespace bwos::system_call
