// SPDX-License-Identifier: Apache-2.0
// One thread's sleep without descriptors, and its wake by name.
//
// INVARIANTS
// P1  A wake leaves token_ at 1 until the sleeper takes it: a wake before the sleep is not lost.
// P2  The kernel compares token_ with 0 under its own lock, so a wake between the look and the
// sleep ends the sleep. Test: futex_parker_test.cpp
#pragma once

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <ctime>

namespace bwos {

class futex_parker {
 public:
  /// Sleeps until wake(), or for `timeout_ms` (negative: no limit). May return early: the caller
  /// looks again.
  void wait(std::int64_t timeout_ms) noexcept {
    // [futex.take.before] acquire: what the waker published before wake() is seen. Partner:
    // [futex.wake].
    if (token_.exchange(0, std::memory_order_acquire) != 0) return;
    timespec limit{.tv_sec = static_cast<std::time_t>(timeout_ms / 1000),
                   .tv_nsec = static_cast<long>(timeout_ms % 1000) * 1'000'000};
    ::syscall(SYS_futex, address(), FUTEX_WAIT_PRIVATE, 0U, timeout_ms < 0 ? nullptr : &limit,
              nullptr, 0);
    // [futex.take.after] acquire: as before the sleep. Partner: [futex.wake].
    token_.exchange(0, std::memory_order_acquire);
  }

  /// Any thread.
  void wake() noexcept {
    // [futex.wake] release: what was published before is seen by the woken. Partner:
    // [futex.take.after].
    if (token_.exchange(1, std::memory_order_release) == 0) {
      ::syscall(SYS_futex, address(), FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
    }
  }

 private:
  std::uint32_t* address() noexcept { return reinterpret_cast<std::uint32_t*>(&token_); }

  static_assert(sizeof(std::atomic<std::uint32_t>) == sizeof(std::uint32_t));
  std::atomic<std::uint32_t> token_{0};
};

}  // namespace bwos
