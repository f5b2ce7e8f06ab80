// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <bwos/stream.hpp>
#include <cstddef>
#include <cstdint>

#include "io/descriptor.hpp"

namespace bwos {

/// The connections that have been idle longest, as far as they have room here.
class idlest {
 public:
  [[nodiscard]] bool empty() const noexcept { return count_ == 0; }

  void offer(descriptor& which, std::int64_t since_ms) noexcept {
    if (count_ == found_.size()) {
      if (since_ms >= found_.front().since_ms) return;
      std::pop_heap(begin(), end(), &longer);
      --count_;
    }
    found_[count_++] = {.which = &which, .since_ms = since_ms};
    std::push_heap(begin(), end(), &longer);
  }
  /// Once, behind the last offer().
  void sort() noexcept {
    std::sort_heap(begin(), end(), &longer);
    std::reverse(begin(), end());
  }
  /// The longest idle, if it still is: what ends its wait. Null: it is not.
  continuation* take() noexcept {
    const found& last = found_[--count_];
    // A descriptor that was recycled has been idle for less.
    return last.which->idle_since() == last.since_ms ? last.which->tell_unwanted() : nullptr;
  }

 private:
  struct found {
    descriptor* which;
    std::int64_t since_ms;
  };
  static bool longer(const found& a, const found& b) noexcept { return a.since_ms < b.since_ms; }
  found* begin() noexcept { return found_.data(); }
  found* end() noexcept { return found_.data() + count_; }

  std::array<found, listener::leaving_max> found_{};
  std::size_t count_ = 0;
};

}  // namespace bwos
