// SPDX-License-Identifier: Apache-2.0
#include "chooser.hpp"

#include <array>

namespace bwos::simulation {

chooser::chooser(random_source& random) noexcept : random_(random) {
  constexpr std::array<unsigned, 4> means{4, 16, 64, 256};
  constexpr std::array<unsigned, 4> preemptions{0, 0, 2000, 200};
  const std::uint32_t draw = random_.below(8);
  manner_ = draw == 0 ? manner::even : draw <= 2 ? manner::ranked : manner::runs;
  mean_steps_ = manner_ == manner::even ? 1 : means[random_.below(means.size())];
  one_preemption_in_ = preemptions[random_.below(preemptions.size())];
}

thread& chooser::next(const std::vector<thread*>& runnable, nanoseconds now) noexcept {
  thread* longest = runnable.front();
  thread* highest = runnable.front();
  for (thread* const each : runnable) {
    if (each->ran_last < longest->ran_last) longest = each;
    if (each->rank > highest->rank) highest = each;
  }
  if (now - longest->ran_last > patience()) return *longest;
  if (manner_ != manner::ranked) {
    return *runnable[random_.below(static_cast<std::uint32_t>(runnable.size()))];
  }
  if (random_.below(16) == 0) highest->rank = --lowest_rank_;
  return *highest;
}

unsigned chooser::steps() noexcept {
  return manner_ == manner::even ? 1 : about(mean_steps_);
}

unsigned chooser::first_rank() noexcept {
  return lowest_rank_ + random_.below(1U << 20);
}

nanoseconds chooser::preempts() noexcept {
  if (one_preemption_in_ == 0 || random_.below(one_preemption_in_) != 0) return 0;
  return 100 * microsecond + random_.below(3'900'000);
}

nanoseconds chooser::wake_latency() noexcept {
  return random_.below(random_.below(4) == 0 ? 50'000 : 2'000);
}

unsigned chooser::about(unsigned mean) noexcept {
  const std::uint32_t first = random_.below(4 * mean);
  return 1 + random_.below(1 + first);
}

}  // namespace bwos::simulation
