// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>

namespace bwos::server::h2 {

/// Counts PINGs that come too soon behind each other, as gRPC servers do (gRPC's
/// doc/keepalive.md, "Server Enforcement"). Frames of answers between two of them excuse both: the
/// peer may be measuring its window. One thread at a time.
class ping_guard {
 public:
  using clock = std::chrono::steady_clock;

  /// A PING has come, which may come again after `apart`. False: that was a strike above
  /// `strikes_max`.
  [[nodiscard]] bool take(clock::time_point now, clock::duration apart,
                          unsigned strikes_max) noexcept {
    const bool strike = any_ && now - last_ < apart;
    any_ = true;
    last_ = now;
    return !strike || ++strikes_ <= strikes_max;
  }
  /// Frames of an answer were sent.
  void excuse() noexcept {
    any_ = false;
    strikes_ = 0;
  }

 private:
  clock::time_point last_;  // if any_
  unsigned strikes_ = 0;
  bool any_ = false;
};

}  // namespace bwos::server::h2
