// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include <bwos/queue/steal.hpp>

namespace bwos::bench {

/// Chase and Lev's deque with the orders of Lê et al. (PPoPP '13), bounded. `Exchange`: the order
/// of a get comes from an exchange in place of store and fence.
template <class T, std::size_t Capacity, bool Exchange>
class chase_lev_deque {
 public:
  static constexpr std::size_t block_entries = 1;
  chase_lev_deque& as_owner() { return *this; }
  chase_lev_deque& as_thief() { return *this; }

  bool put(T value) {
    const std::int64_t bottom = bottom_.load(std::memory_order_relaxed);
    if (bottom - top_.load(std::memory_order_acquire) == std::int64_t{Capacity}) return false;
    at(bottom).store(value, std::memory_order_relaxed);
    bottom_.store(bottom + 1, std::memory_order_release);
    return true;
  }

  bool get(T& value) {
    const std::int64_t bottom = bottom_.load(std::memory_order_relaxed) - 1;
    if constexpr (Exchange) {
      bottom_.exchange(bottom, std::memory_order_seq_cst);
    } else {
      bottom_.store(bottom, std::memory_order_relaxed);
      std::atomic_thread_fence(std::memory_order_seq_cst);
    }
    std::int64_t top = top_.load(std::memory_order_relaxed);
    if (top < bottom) {
      value = at(bottom).load(std::memory_order_relaxed);
      return true;
    }
    bool won = top == bottom;
    if (won) {
      value = at(bottom).load(std::memory_order_relaxed);
      won = top_.compare_exchange_strong(top, top + 1, std::memory_order_seq_cst,
                                         std::memory_order_relaxed);
    }
    bottom_.store(bottom + 1, std::memory_order_relaxed);
    return won;
  }

  bool sample() const {
    return top_.load(std::memory_order_relaxed) < bottom_.load(std::memory_order_relaxed);
  }

  steal_result steal(T* out, std::size_t /*one*/) {
    std::int64_t top = top_.load(std::memory_order_acquire);
    std::atomic_thread_fence(std::memory_order_seq_cst);
    if (top >= bottom_.load(std::memory_order_acquire)) return {};
    *out = at(top).load(std::memory_order_relaxed);
    if (!top_.compare_exchange_strong(top, top + 1, std::memory_order_seq_cst,
                                      std::memory_order_relaxed)) {
      return {0, steal_status::conflict};
    }
    return {1, steal_status::ok};
  }

 private:
  std::atomic<T>& at(std::int64_t index) {
    return entries_[static_cast<std::size_t>(index) % Capacity];
  }

  alignas(64) std::atomic<std::int64_t> bottom_{0};
  alignas(64) std::atomic<std::int64_t> top_{0};
  alignas(64) std::array<std::atomic<T>, Capacity> entries_{};
};

}  // namespace bwos::bench
