// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bwos/continuation.hpp>
#include <cstddef>
#include <mutex>

#include <bwos/base/atomic.hpp>
#include <bwos/base/cache_line.hpp>
#include <bwos/base/memory_order.hpp>
#include "base/continuation_chain.hpp"
#include "base/mutex.hpp"

// The entry for threads that own no queue, and for what a full queue spills: an intrusive FIFO
// under one lock. Workers look at it often and mostly find nothing: that question is one load, no
// lock.
//
// ROLES  Any thread pushes and pops. A push spins before it sleeps on the lock, as a pop holds it
// for some dozen steps; without that, workers that spill meet in it until both sleep and wake at
// every push (measured: a tree of posts 1.6 times as fast with it). A pop sleeps at once, so that
// hungry workers do not take the processor from the thread that feeds them, or gives up.
//
// INVARIANTS
// Q1  The list and count_ change together, under the lock; a popped chain keeps the order of its
//     pushes.
//       inject_queue_test: pops_in_the_order_of_the_pushes, every_continuation_is_popped_once
// Q2  A worker that announces its parking (seq_cst) and afterwards finds maybe_nonempty() false is
//     seen by every push that it missed, provided that the pusher looks (seq_cst) for parked
//     workers after push() returned: no wake-up is lost.
//       inject_queue_test: push_and_announcement_cannot_miss_each_other

namespace bwos {

class alignas(cache_line) inject_queue {
 public:
  void push(continuation& work) noexcept {
    continuation_chain one;
    one.append(work);
    push(one);
  }

  /// All of the chain in its order, under one lock. The chain must not be empty.
  void push(const continuation_chain& chain) noexcept {
    const std::unique_lock guard = acquire_for_push();
    list_.append(chain);
    publish();
  }

  /// Up to `max` of the oldest, under one lock, and without it when there is nothing.
  continuation_chain pop(std::size_t max) noexcept {
    if (!maybe_nonempty()) return {};
    const std::unique_lock guard(lock_);
    return take(max);
  }

  /// The same for a worker that has other work: nothing while somebody else has the lock.
  continuation_chain try_pop(std::size_t max) noexcept {
    if (!maybe_nonempty()) return {};
    const std::unique_lock guard(lock_, std::try_to_lock);
    if (!guard) return {};
    return take(max);
  }

  /// The oldest, or null.
  continuation* pop() noexcept { return pop(1).first; }

  /// False: nothing was queued by any push that is ordered before this call (Q2).
  [[nodiscard]] bool maybe_nonempty() const noexcept {
    // [inject.look] seq_cst: may not be taken before the announcement of parking that precedes it;
    // with acquire, worker and pusher could both miss each other. Partner: [inject.publish].
    return count_.load(seq_cst) != 0;
  }

  /// For statistics: right at some moment.
  [[nodiscard]] std::size_t size_relaxed() const noexcept {
    // [inject.size] relaxed: a number to show, nothing follows from it. Partner: none (statistics).
    return count_.load(relaxed);
  }

 private:
  std::unique_lock<mutex> acquire_for_push() noexcept {
    constexpr int tries = 100;
    for (int i = 0; i < tries; ++i) {
      if (lock_.try_lock()) return {lock_, std::adopt_lock};
      pause();
    }
    return std::unique_lock(lock_);
  }

  static void pause() noexcept {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
  }

  /// Under the lock.
  continuation_chain take(std::size_t max) noexcept {
    continuation_chain taken;
    while (taken.count < max && !list_.empty()) taken.append(*list_.take_first());
    publish();
    return taken;
  }

  /// Under the lock.
  void publish() noexcept {
    // [inject.publish] seq_cst: may not come after the look for parked workers that follows the
    // push. Partner: [inject.look].
    count_.store(list_.count, seq_cst);
  }

  mutex lock_;
  continuation_chain list_;
  // Apart from the lock: read by everybody all the time, written per push and pop.
  alignas(cache_line) atomic<std::size_t> count_{0};
};

}  // namespace bwos
