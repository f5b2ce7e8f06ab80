// SPDX-License-Identifier: Apache-2.0
// Who goes next, and for how many steps. All of it follows from the seed.
#pragma once

#include <cstdint>
#include <vector>

#include "base/random.hpp"
#include "thread.hpp"

namespace bwos::simulation {

class chooser {
 public:
  explicit chooser(random_source& random) noexcept;

  /// One of `runnable`, which is not empty. Nobody waits for longer than patience(), so that a
  /// thread which another one waits for in a loop comes on.
  thread& next(const std::vector<thread*>& runnable, nanoseconds now) noexcept;
  /// Steps until the next choice, 1 or more.
  unsigned steps() noexcept;
  /// A rank for a thread that begins.
  unsigned first_rank() noexcept;
  /// Whether the thread that is to run loses its processor now, and for how long; 0: it does not.
  nanoseconds preempts() noexcept;
  /// From what a thread waits for to its next step.
  nanoseconds wake_latency() noexcept;

  [[nodiscard]] static constexpr nanoseconds patience() noexcept { return 100 * microsecond; }

 private:
  enum class manner : std::uint8_t {
    runs,    ///< Mostly stays, as real processors do; changes at random.
    even,    ///< Any runnable thread, at each step.
    ranked,  ///< The highest rank that is runnable; now and then it falls to the lowest (PCT,
             ///< Burckhardt et al., ASPLOS '10).
  };

  /// 1 to about 8 times `mean`, more often short than long.
  unsigned about(unsigned mean) noexcept;

  random_source& random_;
  manner manner_;
  unsigned mean_steps_;
  unsigned one_preemption_in_;  // choices; 0: none
  unsigned lowest_rank_ = 1U << 30;
};

}  // namespace bwos::simulation
