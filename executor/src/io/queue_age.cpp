// SPDX-License-Identifier: Apache-2.0
#include "io/queue_age.hpp"

#include <algorithm>

namespace bwos {

void queue_age::start(std::chrono::milliseconds interval) noexcept {
  interval_ms_ = interval.count();
  const std::int64_t first = timer_service::now_ms() + interval_ms_;
  // [queue_age.start] relaxed: no thread reads it yet. Partner: [queue_age.read].
  due_ms_.store(first, std::memory_order_relaxed);
  timers_.arm(timers_.acquire(), *this, first);
}

void queue_age::on_due(timer_entry& entry) noexcept {
  auto& self = static_cast<queue_age&>(entry);
  const std::int64_t now = self.timers_.firing_at();
  if (now == wheel::never) return;  // the pool's end
  // [queue_age.queue] acquire: the last run has left the continuation alone. Partner:
  // [queue_age.ran].
  if (!self.queued_.load(std::memory_order_acquire)) {
    // [queue_age.queued] relaxed: on_due alone sets it, under the timers' lock. Partner:
    // [queue_age.ran], behind the queues' own order.
    self.queued_.store(true, std::memory_order_relaxed);
    // [queue_age.due] relaxed: a number by itself. Partner: [queue_age.read].
    self.due_ms_.store(self.due_ms, std::memory_order_relaxed);
    self.timers_.ready(self);
  }
  self.timers_.rearm(self, now + self.interval_ms_);
}

void queue_age::run(continuation& work, disposition how) noexcept {
  if (how == disposition::discard) return;
  auto& self = static_cast<queue_age&>(work);
  const std::int64_t now = timer_service::now_ms();
  // [queue_age.due.run] relaxed: set before this was queued. Partner: [queue_age.due].
  const std::int64_t late = now - self.due_ms_.load(std::memory_order_relaxed);
  // [queue_age.last] relaxed: a number by itself. Partner: [queue_age.read].
  self.last_ms_.store(late, std::memory_order_relaxed);
  // [queue_age.next] relaxed: the timer is due by then, and says exactly when as it goes off.
  // Partner: [queue_age.read].
  self.due_ms_.store(now + self.interval_ms_, std::memory_order_relaxed);
  // [queue_age.ran] release: nothing more is done with the continuation. Partner:
  // [queue_age.queue].
  self.queued_.store(false, std::memory_order_release);
}

std::chrono::milliseconds queue_age::get(clock::time_point now) const noexcept {
  // [queue_age.read] relaxed: a measure of what changes all the time; between the two it may miss
  // one run's. Partner: [queue_age.last].
  const std::int64_t last = last_ms_.load(std::memory_order_relaxed);
  // [queue_age.read.due] relaxed: a measure, like the last one. Partner: [queue_age.due],
  // [queue_age.next].
  const std::int64_t due = due_ms_.load(std::memory_order_relaxed);
  return std::chrono::milliseconds(std::max(last, wheel::now_tick(now) - due));
}

}  // namespace bwos
