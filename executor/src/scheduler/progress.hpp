// SPDX-License-Identifier: Apache-2.0
// What join() waits for: that nothing is queued or outstanding any more. Whoever changes something
// that may end the wait notes it, which is a load while nobody joins.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>

#include <bwos/base/atomic.hpp>

namespace bwos {

class progress {
 public:
  /// Any thread, after the change.
  void note() noexcept {
    // [progress.look] seq_cst: comes after what has changed; the joiner looks after announcing
    // itself. Partner: [progress.announce].
    if (!awaited_.load(std::memory_order_seq_cst)) return;
    const std::lock_guard guard(lock_);
    ++noted_;
    signal_.notify_all();
  }

  /// Until `is_over()`, which is asked without a lock.
  template <class IsOver>
  void wait(const IsOver& is_over) {
    std::unique_lock guard(lock_);
    // [progress.announce] seq_cst: before the first look at what the workers do. Partner:
    // [progress.look].
    awaited_.store(true, std::memory_order_seq_cst);
    for (;;) {
      const std::uint64_t seen = noted_;
      guard.unlock();
      const bool over = is_over();
      guard.lock();
      if (over) return;
      signal_.wait(guard, [&] { return noted_ != seen; });
    }
  }

 private:
  std::mutex lock_;
  std::condition_variable signal_;
  std::uint64_t noted_ = 0;
  atomic<bool> awaited_{false};
};

}  // namespace bwos
