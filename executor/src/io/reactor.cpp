// SPDX-License-Identifier: Apache-2.0
#include "io/reactor.hpp"

#include <cerrno>
#include <new>

namespace bwos {

reactor::~reactor() = default;

void descriptor::deadline_timer::on_due(timer_entry& entry) noexcept {
  descriptor& self = static_cast<deadline_timer&>(entry).socket;
  timer_service& timers = self.home.timers;
  const std::int64_t due = self.deadline();
  if (due == wheel::never) return;
  if (due > timers.firing_at()) {
    timers.rearm(entry, due);
  } else if (continuation* const work = self.notify(expired)) {
    timers.ready(*work);
  }
}

bool reactor::wait_aside(continuation_chain& sink, int) noexcept {
  return wait(sink);
}

void reactor::set_deadline(descriptor& socket, std::int64_t when_ms) noexcept {
  if (when_ms >= socket.deadline() && (socket.look() & descriptor::expired) == 0) {
    socket.store_deadline(when_ms);
    return;
  }
  const timer_service::lock guard = timers.acquire();
  socket.store_deadline(when_ms);
  socket.consume(descriptor::expired);
  arm_deadline(guard, socket);
}

bool reactor::deadline_passed(descriptor& socket) noexcept {
  const timer_service::lock guard = timers.acquire();
  if (socket.deadline() <= timer_service::now_ms()) return true;
  socket.consume(descriptor::expired);
  arm_deadline(guard, socket);
  return false;
}

void reactor::arm_deadline(const timer_service::lock& guard, descriptor& socket) noexcept {
  timer_entry& entry = socket.deadline_entry;
  const std::int64_t due = socket.deadline();
  if (due == wheel::never || (entry.armed() && entry.due_ms <= due)) return;
  if (entry.armed()) timers.disarm(guard, entry);
  timers.arm(guard, entry, due);
}

void reactor::end_deadline(descriptor& socket) noexcept {
  const timer_service::lock guard = timers.acquire();
  if (socket.deadline_entry.armed()) timers.disarm(guard, socket.deadline_entry);
  socket.store_deadline(wheel::never);
}

descriptor* reactor::take_descriptor(int fd, std::uint64_t accepted_by) noexcept {
  const std::lock_guard guard(slab_lock_);
  descriptor* taken = nullptr;
  if (!free_.empty()) {
    taken = free_.back();
    free_.pop_back();
  } else {
    try {
      // First, so that recycle() cannot fail, and that what fails here leaves nothing behind.
      if (free_.capacity() <= slab_.size()) free_.reserve(2 * (slab_.size() + 1));
      slab_.push_back(make_descriptor());
    } catch (const std::bad_alloc&) {
      errno = ENOMEM;
      return nullptr;
    }
    taken = slab_.back().get();
  }
  taken->reset(fd);
  taken->open = true;
  taken->accepted_by = accepted_by;
  return taken;
}

void reactor::recycle(descriptor& socket) noexcept {
  const std::lock_guard guard(slab_lock_);
  socket.open = false;
  free_.push_back(&socket);
}

void reactor::for_each_open(const std::function<void(descriptor&)>& visit) {
  const std::lock_guard guard(slab_lock_);
  for (const auto& each : slab_) {
    if (each->open) visit(*each);
  }
}

void reactor::drain(continuation_chain& sink) {
  timers.expire_all(sink);
  for_each_open([&](descriptor& each) {
    // Both bits: whichever it waits for.
    constexpr std::uint32_t over = descriptor::hangup | descriptor::writable;
    if (continuation* const work = each.notify(over)) sink.append(*work);
  });
}

}  // namespace bwos
