// SPDX-License-Identifier: Apache-2.0
// Virtual time, and what happens when it has come so far.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <queue>
#include <utility>
#include <vector>

namespace bwos::simulation {

/// Virtual time and spans of it, in nanoseconds.
using nanoseconds = std::uint64_t;
inline constexpr nanoseconds never = std::numeric_limits<nanoseconds>::max();
inline constexpr nanoseconds microsecond = 1'000;
inline constexpr nanoseconds millisecond = 1'000'000;

class clock {
 public:
  explicit clock(nanoseconds start) noexcept : now_(start) {}

  [[nodiscard]] nanoseconds now() const noexcept { return now_; }
  void advance(nanoseconds by) noexcept { now_ += by; }
  void jump_to(nanoseconds when) noexcept { now_ = when; }

  /// `action` is called by run_due() once `when` has come; those of one moment in their order.
  void at(nanoseconds when, std::function<void()> action) {
    actions_.push({when, order_++, std::move(action)});
    next_ = actions_.top().when;
  }
  /// When the first action is due.
  [[nodiscard]] nanoseconds next() const noexcept { return next_; }

  void run_due() {
    while (next_ <= now_) {
      const std::function<void()> action = actions_.top().action;
      actions_.pop();
      next_ = actions_.empty() ? never : actions_.top().when;
      action();
    }
  }

 private:
  struct timed {
    nanoseconds when;
    std::uint64_t order;
    std::function<void()> action;
    bool operator<(const timed& other) const noexcept {  // the largest is a queue's first
      return when != other.when ? when > other.when : order > other.order;
    }
  };

  nanoseconds now_;
  nanoseconds next_ = never;
  std::uint64_t order_ = 0;
  std::priority_queue<timed> actions_;
};

}  // namespace bwos::simulation
