// SPDX-License-Identifier: Apache-2.0
// The deadlines of those who share a reactor: a wheel under a lock.
//
// Readiness is shared inside a group, so its deadlines are too: whoever is free fires them, and a
// connection that moves between workers arms and disarms at its home without messages. No request
// takes the lock: a deadline that only moves later is one relaxed store (descriptor.hpp), so the
// lock is taken when a connection begins, ends or times out.
#pragma once

#include <cstdint>
#include <mutex>

#include "base/continuation_chain.hpp"
#include "base/futex_parker.hpp"
#include "base/mutex.hpp"
#include "base/relaxed_value.hpp"
#include "base/ticks.hpp"
#include "io/timer/wheel.hpp"

namespace bwos {

class timer_service {
 public:
  /// `timer_fd`: a timerfd in the reactor's set, which tells one of its waiters that the first
  /// deadline has come; -1: nobody is told. Owned here.
  explicit timer_service(int timer_fd) noexcept;
  /// Without a timerfd: some thread bounds its sleep on `keeper` by wait_ms(), and is woken when
  /// that has become shorter.
  explicit timer_service(futex_parker& keeper) noexcept;
  ~timer_service();
  timer_service(const timer_service&) = delete;
  timer_service& operator=(const timer_service&) = delete;

  using lock = std::unique_lock<mutex>;
  /// For callers that change an entry together with what it stands for.
  [[nodiscard]] lock acquire() noexcept { return lock(mutex_); }

  /// Any thread.
  void arm(const lock&, timer_entry& entry, std::int64_t due_ms) noexcept;
  void disarm(const lock&, timer_entry& entry) noexcept { wheel_.erase(entry); }

  /// Fires what is due. An entry's on_due runs under the lock: it may re-arm itself through
  /// rearm(), and hands what must run to ready().
  void advance(continuation_chain& sink) noexcept;
  /// Inside on_due only.
  void rearm(timer_entry& entry, std::int64_t due_ms) noexcept { wheel_.insert(entry, due_ms); }
  void ready(continuation& work) noexcept { sink_->append(work); }
  [[nodiscard]] std::int64_t firing_at() const noexcept { return firing_at_; }

  /// Whether advance() would fire something: for those who look often. Any thread.
  [[nodiscard]] bool due() const noexcept {
    const std::int64_t first = announced_ms_.get();
    return first != wheel::never && first <= now_ms();
  }
  /// Milliseconds that the keeper may sleep; -1: no limit.
  [[nodiscard]] std::int64_t wait_ms() noexcept;

  /// When the pool ends, the workers joined: fires everything, whenever due.
  void expire_all(continuation_chain& sink) noexcept;

  static std::int64_t now_ms() noexcept { return wheel::now_tick(steady_now()); }

 private:
  void fire(continuation_chain& sink, std::int64_t now) noexcept;
  void announce(std::int64_t due_ms) noexcept;

  mutex mutex_;
  wheel wheel_;
  continuation_chain* sink_ = nullptr;
  std::int64_t firing_at_ = 0;
  // What the timerfd, or the keeper, was told last: nothing is due before.
  relaxed_value<std::int64_t> announced_ms_{wheel::never};
  const int timer_fd_;
  futex_parker* const keeper_ = nullptr;
};

}  // namespace bwos
