// SPDX-License-Identifier: Apache-2.0
// Threads that are no workers and wait for work of a pool: they sleep until that has ended, or
// until the pool has no worker left that could end it.
//
// INVARIANTS
// O1  A waiter is told of the end of its work by the work (join_word), and of the last worker's by
//     worker_left(): both wake its parker, behind what they tell.
// O2  ended_ is true when the pool is stopping and no worker is in its loop; then none ever will be
//     again (worker_begins). So queues belong to whoever holds the lock.
// O3  The pool's end waits until no waiter is left, so that none touches what is gone.
// Test: task_group_test (stopped_pool.*)
#pragma once

#include <condition_variable>
#include <mutex>
#include <utility>

#include "base/futex_parker.hpp"

namespace bwos {

class outside_waits {
 public:
  /// Until `is_over()`. Once the pool has ended, `give_up()` is called, one waiter at a time.
  template <class IsOver, class GiveUp>
  void wait(futex_parker& parker, const IsOver& is_over, const GiveUp& give_up) {
    waiter me{&parker, nullptr};
    {
      const std::lock_guard guard(lock_);
      me.next = std::exchange(waiting_, &me);
    }
    bool gave_up = false;
    while (!is_over()) {
      {
        const std::lock_guard guard(lock_);
        if (ended_ && !gave_up) {
          give_up();
          gave_up = true;
          continue;
        }
      }
      parker.wait(-1);
    }
    const std::lock_guard guard(lock_);
    waiter** at = &waiting_;
    while (*at != &me) at = &(*at)->next;
    *at = me.next;
    left_.notify_all();
  }

  /// False: the pool has ended.
  [[nodiscard]] bool worker_begins() {
    const std::lock_guard guard(lock_);
    if (!ended_) ++workers_;
    return !ended_;
  }
  void worker_left(bool stopping) {
    const std::lock_guard guard(lock_);
    --workers_;
    end_if(stopping);
  }
  /// It is stopping.
  void stopping() {
    const std::lock_guard guard(lock_);
    end_if(true);
  }

  /// For who discards what the pool holds.
  [[nodiscard]] std::mutex& lock() noexcept { return lock_; }
  void wait_until_all_have_left() {
    std::unique_lock guard(lock_);
    left_.wait(guard, [this] { return waiting_ == nullptr; });
  }

 private:
  struct waiter {  // on its thread's stack
    futex_parker* parker;
    waiter* next;
  };

  void end_if(bool stopping) {
    if (!stopping || workers_ != 0 || ended_) return;
    ended_ = true;
    for (const waiter* each = waiting_; each != nullptr; each = each->next) each->parker->wake();
  }

  std::mutex lock_;
  std::condition_variable left_;
  waiter* waiting_ = nullptr;
  unsigned workers_ = 0;
  bool ended_ = false;
};

}  // namespace bwos
