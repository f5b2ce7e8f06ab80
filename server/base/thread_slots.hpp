// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace bwos::server {

/// A Slot for each thread that asks for one. They stay when their threads end. Must outlive every
/// thread that asks.
template <class Slot>
class thread_slots {
 public:
  thread_slots() noexcept = default;
  thread_slots(const thread_slots&) = delete;
  thread_slots& operator=(const thread_slots&) = delete;

  /// The calling thread's; its first call has `make` make it, a std::unique_ptr<Slot>. Throws
  /// std::bad_alloc, and what that throws. Never keep it across a co_await, and call it from a
  /// function that is not inlined: a coroutine would keep one thread's address.
  template <class Make>
  [[nodiscard]] Slot& here(Make make) {
    if (cache.owner != id_) [[unlikely]]
      cache = {.owner = id_, .where = &find_or_add(make)};
    return *cache.where;
  }

  /// Of all threads, one after the other; no thread gets its first meanwhile. Any thread.
  template <class Visit>
  void for_each(Visit visit) const {
    const std::lock_guard lock(mutex_);
    for (const entry& each : entries_) visit(*each.slot);
  }

 private:
  struct entry {
    std::thread::id owner;
    std::unique_ptr<Slot> slot;
  };
  struct cached {
    std::uint64_t owner = 0;
    Slot* where = nullptr;
  };

  static std::uint64_t next_id() noexcept {
    static std::atomic<std::uint64_t> last{0};
    // [slots.id] relaxed: only has to be unique. Partner: none (a number).
    return last.fetch_add(1, std::memory_order_relaxed) + 1;
  }

  template <class Make>
  Slot& find_or_add(Make& make) {
    const std::lock_guard lock(mutex_);
    for (const entry& each : entries_) {
      if (each.owner == std::this_thread::get_id()) return *each.slot;
    }
    entries_.reserve(entries_.size() + 1);  // what is made has its place
    return *entries_.emplace_back(entry{std::this_thread::get_id(), make()}).slot;
  }

  static constinit inline thread_local cached cache{};

  const std::uint64_t id_ = next_id();  // tells a thread whose slot it has at hand
  mutable std::mutex mutex_;            // of entries_, which only grow
  std::vector<entry> entries_;
};

}  // namespace bwos::server
