// SPDX-License-Identifier: Apache-2.0
// One thread's sleep without descriptors, and its wake by name.
//
// INVARIANTS
// P1  A wake leaves token_ at 1 until the sleeper takes it: a wake before the sleep is not lost.
// P2  The kernel compares token_ with 0 under its own lock, so a wake between the look and the
//     sleep ends the sleep.
// Test: idle_set_test.cpp
#pragma once

#include <cstdint>

#include <bwos/base/atomic.hpp>
#include "base/system_call.hpp"

namespace bwos {

class futex_parker {
 public:
  /// Sleeps until wake(), or for `timeout_ms` (negative: no limit). May return early: the caller
  /// looks again.
  void wait(std::int64_t timeout_ms) noexcept {
    // [futex.take.before] acquire: what the waker published before wake() is seen. Partner:
    // [futex.wake].
    if (token_.exchange(0, std::memory_order_acquire) != 0) return;
    system_call::futex_wait(address(), 0, timeout_ms);
    // [futex.take.after] acquire: as before the sleep. Partner: [futex.wake].
    token_.exchange(0, std::memory_order_acquire);
  }

  /// Its thread: wake-ups so far are somebody else's.
  void forget() noexcept {
    // [futex.forget] relaxed: nothing is read on its strength. Partner: [futex.wake].
    token_.store(0, std::memory_order_relaxed);
  }

  /// Any thread.
  void wake() noexcept {
    // [futex.wake] release: what was published before is seen by the woken. Partner:
    // [futex.take.after].
    if (token_.exchange(1, std::memory_order_release) == 0) {
      system_call::futex_wake_one(address());
    }
  }

 private:
  std::uint32_t* address() noexcept { return reinterpret_cast<std::uint32_t*>(&token_); }

  static_assert(sizeof(atomic<std::uint32_t>) == sizeof(std::uint32_t));
  atomic<std::uint32_t> token_{0};
};

}  // namespace bwos
