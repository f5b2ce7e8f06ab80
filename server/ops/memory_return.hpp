// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>

namespace bwos::server {

/// Gives memory that the C library keeps for itself back to the system when a burst is over. After
/// 600 peers that had not read 3 MB each glibc kept 550 MB, nearly all of it free: once blocks as
/// large as the bodies have been freed it takes them out of its arenas, too, and those shrink from
/// their ends only, where a small block is left. To give it back (malloc_trim) locks an arena after
/// the other for as long as it takes, so it waits until the process computes little; but while more
/// is resident than peers may make the server keep, it does not wait: --memory-max counts nothing
/// that is free, and in a group with a limit the kernel would end the process for it. With another
/// C library nothing is done.
class memory_return {
 public:
  using clock = std::chrono::steady_clock;

  /// From now on blocks of 256 KiB and more are the system's own, and go back to it when they are
  /// freed, in place of the arena of whichever worker freed them. A connection's messages are made
  /// on any worker that runs it, and each worker's arena would keep as much as the connection may
  /// use: with messages of 4 MiB, two workers and a budget of 64 MiB, 135 MiB in place of 66.
  /// `resident_max`: bytes; above, it does not wait.
  memory_return(unsigned workers, std::size_t resident_max) noexcept;

  /// One thread, no worker; at least every `interval`, in which it looks once, or less often where
  /// that takes long.
  void look(clock::time_point now) noexcept;

  /// A guess: hostile peers were seen to make 100 MB a second of it resident.
  static constexpr std::chrono::milliseconds interval{250};
  /// Over which it is seen how much the process computes. A guess: short beside the time that
  /// anybody waits for memory.
  static constexpr std::chrono::milliseconds burst_interval{2000};

 private:
  [[nodiscard]] bool burst_is_over(clock::time_point now) noexcept;
  void give_back(bool is_over, clock::time_point begun) noexcept;

  const unsigned workers_;
  const std::size_t resident_max_;
  clock::time_point next_look_;
  clock::time_point burst_looked_;
  std::chrono::nanoseconds used_{0};  // processor time, at the last look
  std::size_t kept_ = 0;   // resident and not in use after the last return, or less since
  bool in_burst_ = false;  // which did not wait
};

}  // namespace bwos::server
