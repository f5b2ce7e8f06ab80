// SPDX-License-Identifier: Apache-2.0
// Waits for work of a pool that may have to end without it: those of other threads, and those of
// workers once the pool stops. They sleep until that work has ended; or until nobody is left who
// could run it, and then they discard it.
//
// INVARIANTS
// O1  A waiter is told of the end of its work by the work (join_word), and by the last worker that
//     nobody runs any more: both wake its parker, behind what they tell.
// O2  Nobody runs: the pool is stopping, and each thread of it, workers and reactor threads, has
//     left its loop or waits here. A worker leaves its wait with the lock only, and does not count
//     as waiting while it discards. So who holds the lock while nobody runs may drain queues,
//     timers and reactors. What is drained is discarded without the lock: destructors may do as
//     they like.
// O3  The pool's end waits until no waiter is left, so that none touches what is gone.
// Test: task_group_test (stopped_pool.*)
#pragma once

#include <bwos/fork/forks.hpp>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>

#include "base/continuation_chain.hpp"
#include "base/futex_parker.hpp"

namespace bwos {

class pool_waits {
 public:
  using waiter = detail::outside_wait;

  /// From now on the pool's end waits for it.
  void enter(waiter& me) {
    const std::lock_guard guard(lock_);
    me.next_ = std::exchange(waiting_, &me);
  }
  void leave(waiter& me) {
    const std::lock_guard guard(lock_);
    waiter** at = &waiting_;
    while (*at != &me) at = &(*at)->next_;
    *at = me.next_;
    left_.notify_all();
  }

  /// Of one that has entered: until `is_over()`. Where nobody runs, `take(chain)` takes, with the
  /// lock held, what is to be discarded.
  template <class IsOver, class Take>
  void wait(const waiter& me, const IsOver& is_over, const Take& take) {
    std::unique_lock guard(lock_);
    sleep(guard, me, is_over, take, false);
  }
  /// The same of a worker, in its loop.
  template <class IsOver, class Take>
  void wait_in_worker(const waiter& me, const IsOver& is_over, const Take& take) {
    std::unique_lock guard(lock_);
    ++blocked_;
    tell_if_nobody_runs();
    sleep(guard, me, is_over, take, true);
    --blocked_;
  }

  /// False: it is stopping, and nobody may begin.
  [[nodiscard]] bool worker_begins() {
    const std::lock_guard guard(lock_);
    if (!stopping_) ++workers_;
    return !stopping_;
  }
  void worker_left() {
    const std::lock_guard guard(lock_);
    --workers_;
    tell_if_nobody_runs();
  }
  void stopping() {
    const std::lock_guard guard(lock_);
    stopping_ = true;
    tell_if_nobody_runs();
  }

  /// Something has been queued while the pool stops.
  void look_again() {
    const std::lock_guard guard(lock_);
    tell_if_nobody_runs();
  }

  /// For who drains what the pool holds (O2).
  [[nodiscard]] std::mutex& lock() noexcept { return lock_; }
  void wait_until_all_have_left() {
    std::unique_lock guard(lock_);
    left_.wait(guard, [this] { return waiting_ == nullptr; });
  }

 private:
  [[nodiscard]] bool nobody_runs() const noexcept { return stopping_ && workers_ == blocked_; }
  void tell_if_nobody_runs() {
    if (!nobody_runs()) return;
    for (const waiter* each = waiting_; each != nullptr; each = each->next_) {
      if (each->parker_ != nullptr) each->parker_->wake();
    }
  }

  template <class IsOver, class Take>
  void sleep(std::unique_lock<std::mutex>& guard, const waiter& me, const IsOver& is_over,
             const Take& take, bool in_worker) {
    while (!is_over()) {
      continuation_chain parts;
      if (nobody_runs()) take(parts);
      const bool runs = in_worker && !parts.empty();
      if (runs) --blocked_;
      guard.unlock();
      if (!parts.empty()) {
        parts.discard_all();
      } else if (me.parker_ != nullptr) {
        me.parker_->wait(-1);
      } else {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
      guard.lock();
      if (runs) {
        ++blocked_;
        tell_if_nobody_runs();
      }
    }
  }

  std::mutex lock_;
  std::condition_variable left_;
  waiter* waiting_ = nullptr;
  unsigned workers_ = 0;  // in their loops; reactor threads, too
  unsigned blocked_ = 0;  // of these
  bool stopping_ = false;
};

}  // namespace bwos
