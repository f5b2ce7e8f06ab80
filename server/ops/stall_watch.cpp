// SPDX-License-Identifier: Apache-2.0
#include "ops/stall_watch.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>

namespace bwos::server {
namespace {

using namespace std::chrono_literals;

std::string text_of(unsigned worker, const worker_turn& stalled) {
  return "worker " + std::to_string(worker) + " has been inside one task for " +
         std::to_string(stalled.age / 1ms) + " ms";
}

}  // namespace

stall_watch::stall_watch(const pool* workers, std::chrono::microseconds limit)
    : workers_(workers),
      count_(workers == nullptr ? 0 : workers->workers()),
      limit_(limit),
      logged_(count_) {}

std::optional<worker_turn> stall_watch::stall_of(unsigned worker) const noexcept {
  if (limit_ == 0us) return std::nullopt;
  const worker_turn present = workers_->turn_of(worker);
  return present.age > limit_ ? std::optional(present) : std::nullopt;
}

void stall_watch::describe(std::string& to) const {
  worker_turn longest;
  unsigned where = 0;
  for (unsigned i = 0; i < count_; ++i) {
    const auto stalled = stall_of(i);
    if (!stalled || stalled->age <= longest.age) continue;
    longest = *stalled;
    where = i;
  }
  if (longest.age > 0us) to.append(text_of(where, longest)).append("\n");
}

void stall_watch::log_new() {
  for (unsigned i = 0; i < count_; ++i) {
    const auto stalled = stall_of(i);
    if (!stalled || stalled->began == logged_[i]) continue;
    logged_[i] = stalled->began;
    spdlog::warn("{}; /healthz fails until it ends (--stall-timeout)", text_of(i, *stalled));
  }
}

/// Often enough to see a stall that lasts twice the limit.
std::chrono::milliseconds stall_watch::interval() const noexcept {
  if (limit_ == 0us || count_ == 0) return 24h;
  return std::clamp(std::chrono::ceil<std::chrono::milliseconds>(limit_), 10ms, 1000ms);
}

}  // namespace bwos::server
