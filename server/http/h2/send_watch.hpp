// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>

namespace bwos::server::h2 {

/// Finds out, asked now and then, whether what waits for a peer's window goes too slowly. One
/// thread at a time.
class send_watch {
 public:
  using clock = std::chrono::steady_clock;

  /// `sent`: bytes since ever. True: for `patience` there were less than `least` of them.
  [[nodiscard]] bool is_slow(clock::time_point now, std::uint64_t sent,
                             std::chrono::microseconds patience, std::uint64_t least) noexcept {
    if (since_ != clock::time_point() && sent - sent_before_ < least) {
      return now - since_ >= patience;
    }
    since_ = now;
    sent_before_ = sent;
    return false;
  }
  /// Nothing waits for the peer: the next question is the first.
  void stop() noexcept { since_ = {}; }

 private:
  clock::time_point since_;  // none: the clock's beginning
  std::uint64_t sent_before_ = 0;
};

}  // namespace bwos::server::h2
