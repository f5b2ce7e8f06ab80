// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>

namespace bwos {

/// Two fences that order a store before a load like std::atomic_thread_fence(seq_cst) on both
/// sides, where one side is taken often and the other seldom: membarrier(2), PRIVATE_EXPEDITED. The
/// kernel runs a full fence on each CPU that is at a thread of this process.
struct asymmetric_fence {
  /// Whether light() and heavy() order anything: the kernel has the call, and allows it. Asked once
  /// a process, and again in a child after fork(). Any thread.
  static bool available() noexcept;

  /// The frequent side: keeps the compiler from moving accesses, and costs nothing.
  static void light() noexcept {
    // [fence.light] seq_cst: keeps the compiler's order; the processor's is made by heavy().
    // Partner: none (a system call).
    std::atomic_signal_fence(std::memory_order_seq_cst);
  }

  /// The seldom side: a system call of some 10 us. Only where available().
  static void heavy() noexcept;
};

}  // namespace bwos
