// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <utility>

namespace bwos::bench {

using steady = std::chrono::steady_clock;

/// Where the thread outside waits, the same way on every side.
class answer {
 public:
  void give() {
    const auto now = steady::now();
    const std::lock_guard guard(lock_);
    given_at_ = now;
    changed_.notify_one();
  }
  /// When it was given.
  steady::time_point take() {
    std::unique_lock guard(lock_);
    changed_.wait(guard, [this] { return given_at_.has_value(); });
    return *std::exchange(given_at_, std::nullopt);
  }

 private:
  std::mutex lock_;
  std::condition_variable changed_;
  std::optional<steady::time_point> given_at_;
};

}  // namespace bwos::bench
