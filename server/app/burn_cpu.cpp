// SPDX-License-Identifier: Apache-2.0
#include "app/burn_cpu.hpp"

#include <ctime>

namespace bwos::server::handlers {
namespace {

std::uint64_t cpu_ns() noexcept {
  std::timespec used{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
  return static_cast<std::uint64_t>(used.tv_sec) * 1'000'000'000 +
         static_cast<std::uint64_t>(used.tv_nsec);
}

}  // namespace

void burn_cpu(std::uint64_t us) noexcept {
  const std::uint64_t start = cpu_ns();
  // Ends: a thread that runs this uses CPU time.
  while (cpu_ns() - start < us * 1000) {
    for (int i = 0; i < 64; ++i) asm volatile("" ::: "memory");
  }
}

}  // namespace bwos::server::handlers
