// SPDX-License-Identifier: Apache-2.0
#include <bwos/timer.hpp>

#include "base/check.hpp"
#include "io/timer/timer_service.hpp"
#include "io/worker_context.hpp"

namespace bwos {

bool sleep_until::is_possible_here() noexcept {
  return current_worker() != nullptr;
}

void sleep_until::arm() noexcept {
  worker_context* const here = current_worker();
  BWOS_CHECK(here != nullptr);  // sleeping is a worker's: no other thread has timers
  timers_ = here->timers;
  const std::int64_t due = wheel::due_tick(when_);
  // Once the lock is gone the coroutine may be running elsewhere: the guard is the last to be
  // touched.
  const timer_service::lock guard = timers_->acquire();
  timers_->arm(guard, *this, due);
}

void sleep_until::on_time(timer_entry& self) noexcept {
  auto& sleeper = static_cast<sleep_until&>(self);
  sleeper.timers_->ready(sleeper);
}

}  // namespace bwos
