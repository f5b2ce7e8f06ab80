// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>

#include <bwos/queue/steal.hpp>
#include "base/mutex.hpp"

// The interface of fifo_queue behind one lock: simple enough to be believed. Oracle in tests,
// baseline in benchmarks. Thieves see every entry at once, so that share() has nothing to do, and
// there is one block to choose, which is always in use.

namespace bwos {

template <class T, std::size_t Entries = 64, std::size_t Blocks = 128>
class mutex_queue {
 public:
  using value_type = T;
  static constexpr std::size_t block_entries = Entries;
  static constexpr std::size_t block_count = 1;
  static constexpr std::size_t capacity = Entries * Blocks;

  class owner;
  class thief;

  explicit mutex_queue(std::uint32_t /*first_round*/ = 1) noexcept : owner_(*this) {}
  mutex_queue(const mutex_queue&) = delete;
  mutex_queue& operator=(const mutex_queue&) = delete;

  owner& as_owner() noexcept { return owner_; }
  thief as_thief() noexcept { return thief(*this); }

 private:
  bool put(T value) noexcept {
    const std::lock_guard guard(lock_);
    if (size_ == capacity) return false;
    ring_[(first_ + size_) % capacity] = value;
    ++size_;
    return true;
  }

  std::size_t take(T* out, std::size_t max) noexcept {
    const std::lock_guard guard(lock_);
    std::size_t count = 0;
    for (; count < max && size_ != 0; ++count, --size_) {
      out[count] = ring_[first_];
      first_ = (first_ + 1) % capacity;
    }
    return count;
  }

  bool empty() const noexcept {
    const std::lock_guard guard(lock_);
    return size_ == 0;
  }

  mutable mutex lock_;
  std::array<T, capacity> ring_;
  std::size_t first_ = 0;
  std::size_t size_ = 0;
  owner owner_;
};

template <class T, std::size_t Entries, std::size_t Blocks>
class mutex_queue<T, Entries, Blocks>::owner {
 public:
  owner(const owner&) = delete;
  owner& operator=(const owner&) = delete;

  bool put(T value) noexcept { return queue_.put(value); }
  bool get(T& value) noexcept { return queue_.take(&value, 1) == 1; }
  bool share() noexcept { return false; }
  bool empty() const noexcept { return queue_.empty(); }
  std::size_t drain_front(T* out, std::size_t max) noexcept {
    return queue_.take(out, max < Entries ? max : Entries);
  }

 private:
  friend mutex_queue;
  explicit owner(mutex_queue& queue) noexcept : queue_(queue) {}
  mutex_queue& queue_;
};

template <class T, std::size_t Entries, std::size_t Blocks>
class mutex_queue<T, Entries, Blocks>::thief {
 public:
  block_range in_use() const noexcept { return {}; }
  bool sample(std::size_t /*block_index*/) const noexcept { return !queue_->empty(); }
  steal_result steal(std::size_t /*block_index*/, T* out, std::size_t max) const noexcept {
    const std::size_t count = queue_->take(out, max < Entries ? max : Entries);
    return {count, count == 0 ? steal_status::empty : steal_status::ok};
  }

 private:
  friend mutex_queue;
  explicit thief(mutex_queue& queue) noexcept : queue_(&queue) {}
  mutex_queue* queue_;
};

}  // namespace bwos
