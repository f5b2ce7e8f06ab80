// SPDX-License-Identifier: Apache-2.0
#include "io/timer/timer_service.hpp"

#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <ctime>

namespace bwos {

timer_service::timer_service(int timer_fd) noexcept : wheel_(now_ms()), timer_fd_(timer_fd) {}

timer_service::timer_service(futex_parker& keeper) noexcept
    : wheel_(now_ms()), timer_fd_(-1), keeper_(&keeper) {}

timer_service::~timer_service() {
  if (timer_fd_ >= 0) ::close(timer_fd_);
}

void timer_service::arm(const lock&, timer_entry& entry, std::int64_t due_ms) noexcept {
  wheel_.insert(entry, due_ms);
  if (due_ms >= announced_ms_.get()) return;
  announce(due_ms);
  if (keeper_ != nullptr) keeper_->wake();
}

void timer_service::advance(continuation_chain& sink) noexcept {
  const lock guard = acquire();
  if (!wheel_.empty()) fire(sink, now_ms());
  const std::int64_t wait = wheel_.next_due(firing_at_);
  announce(wait == wheel::never ? wheel::never : firing_at_ + wait);
}

void timer_service::expire_all(continuation_chain& sink) noexcept {
  const lock guard = acquire();
  fire(sink, wheel::never);
}

void timer_service::fire(continuation_chain& sink, std::int64_t now) noexcept {
  firing_at_ = now;
  sink_ = &sink;
  wheel_.advance(now);
  sink_ = nullptr;
}

std::int64_t timer_service::wait_ms() noexcept {
  const lock guard = acquire();
  if (wheel_.empty()) return -1;
  return wheel_.next_due(now_ms());
}

void timer_service::announce(std::int64_t due_ms) noexcept {
  announced_ms_.set(due_ms);
  if (timer_fd_ < 0 || due_ms == wheel::never) return;
  const std::int64_t at = std::max<std::int64_t>(due_ms, 1);  // zero would disarm
  const itimerspec when{.it_interval = {},
                        .it_value = {.tv_sec = static_cast<std::time_t>(at / 1000),
                                     .tv_nsec = static_cast<long>(at % 1000) * 1'000'000}};
  ::timerfd_settime(timer_fd_, TFD_TIMER_ABSTIME, &when, nullptr);
}

}  // namespace bwos
