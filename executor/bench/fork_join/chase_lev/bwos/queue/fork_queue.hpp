// SPDX-License-Identifier: Apache-2.0
// Stands in front of executor/include/bwos/queue/fork_queue.hpp for the benchmark alone: the
// runtime as it is, on the deque of Chase and Lev (SPAA '05, with the orders of Le et al., PPoPP
// '13) instead. BWOS_CHASE_LEV says how the owner's take is ordered before its look at the top:
//   1  a fence;  2  an exchange;  3  by the thief, with membarrier(2) in each steal
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <bwos/base/asymmetric_fence.hpp>
#include <bwos/base/cache_line.hpp>
#include <bwos/queue/steal.hpp>

namespace bwos {

template <class T, std::size_t Entries = 64, std::size_t Blocks = 8>
class alignas(cache_line) fork_queue {
  // As much as the other one has; more depth than this is not measured here.
  static constexpr std::int64_t capacity = std::int64_t{1} << 21;

 public:
  struct block {};
  class thief;

  class owner {
   public:
    bool put(T value) noexcept { return put_quickly(value) || finish_put(value); }
    bool put_quickly(T value) noexcept {
      const std::int64_t bottom = queue_.bottom_.load(std::memory_order_relaxed);
      // The room is looked at once a lap; and nobody has room who shall go the slow way.
      if (bottom >= limit_) return false;
      store(bottom, value);
      return true;
    }
    [[gnu::noinline]] bool finish_put(T value) noexcept {
      const std::int64_t bottom = queue_.bottom_.load(std::memory_order_relaxed);
      limit_ = queue_.top_.load(std::memory_order_acquire) + capacity;
      if (bottom >= limit_) return false;
      store(bottom, value);
      // Before the look who sleeps, as a request's answer is in the other queue.
      std::atomic_thread_fence(std::memory_order_seq_cst);
      return true;
    }

    bool get(T& value) noexcept { return get_quickly(value) || finish_get(value); }
    bool get_quickly(T& value) noexcept {
      const std::int64_t bottom = queue_.bottom_.load(std::memory_order_relaxed) - 1;
#if BWOS_CHASE_LEV == 2
      queue_.bottom_.exchange(bottom, std::memory_order_seq_cst);
#else
      queue_.bottom_.store(bottom, std::memory_order_relaxed);
#endif
#if BWOS_CHASE_LEV == 1
      std::atomic_thread_fence(std::memory_order_seq_cst);
#elif BWOS_CHASE_LEV == 3
      asymmetric_fence::light();
#endif
      const std::int64_t top = queue_.top_.load(std::memory_order_relaxed);
      if (top < bottom) [[likely]] {
        value = queue_.at(bottom).load(std::memory_order_relaxed);
        return true;
      }
      return false;
    }
    /// The last entry, or none.
    [[gnu::noinline]] bool finish_get(T& value) noexcept {
      const std::int64_t bottom = queue_.bottom_.load(std::memory_order_relaxed);
      std::int64_t top = queue_.top_.load(std::memory_order_relaxed);
      bool got = top == bottom;
      if (got) {
        value = queue_.at(bottom).load(std::memory_order_relaxed);
        got = queue_.top_.compare_exchange_strong(top, top + 1, std::memory_order_seq_cst,
                                                  std::memory_order_relaxed);
      }
      queue_.bottom_.store(bottom + 1, std::memory_order_relaxed);
      return got;
    }

    bool empty() const noexcept {
      return queue_.bottom_.load(std::memory_order_relaxed) <=
             queue_.top_.load(std::memory_order_relaxed);
    }
    void suspend_puts() noexcept { limit_ = 0; }
    std::size_t growth() const noexcept { return 0; }
    void grow(block* /*none*/) noexcept {}

   private:
    friend fork_queue;
    explicit owner(fork_queue& queue) noexcept : queue_(queue) {
      asymmetric_fence::available();  // registers
    }
    void store(std::int64_t bottom, T value) noexcept {
      queue_.at(bottom).store(value, std::memory_order_relaxed);
      queue_.bottom_.store(bottom + 1, std::memory_order_release);
    }

    fork_queue& queue_;
    std::int64_t limit_ = 0;
  };

  class thief {
   public:
    bool sample() const noexcept {
      const std::int64_t top = queue_->top_.load(std::memory_order_acquire);
      return top < queue_->bottom_.load(std::memory_order_acquire);
    }
    steal_result steal(T* out, std::size_t /*one*/) const noexcept {
      std::int64_t top = queue_->top_.load(std::memory_order_acquire);
#if BWOS_CHASE_LEV == 3
      if (top >= queue_->bottom_.load(std::memory_order_acquire)) return {0, steal_status::empty};
      asymmetric_fence::heavy();
#else
      std::atomic_thread_fence(std::memory_order_seq_cst);
#endif
      if (top >= queue_->bottom_.load(std::memory_order_acquire)) return {0, steal_status::empty};
      *out = queue_->at(top).load(std::memory_order_relaxed);
      if (!queue_->top_.compare_exchange_strong(top, top + 1, std::memory_order_seq_cst,
                                                std::memory_order_relaxed)) {
        return {0, steal_status::conflict};
      }
      return {1, steal_status::ok};
    }

    // Nothing is hidden.
    bool hides() const noexcept { return false; }
    void request() const noexcept {}
    struct exposure {
      bool needs_fence() const noexcept { return false; }
    };
    exposure begin_exposure() const noexcept { return {}; }
    steal_status end_exposure(const exposure& /*none*/) const noexcept {
      return steal_status::empty;
    }

   private:
    friend fork_queue;
    explicit thief(fork_queue& queue) noexcept : queue_(&queue) {}
    fork_queue* queue_;
  };

  fork_queue() noexcept : entries_(new std::atomic<T>[capacity]), owner_(*this) {}
  ~fork_queue() { delete[] entries_; }
  fork_queue(const fork_queue&) = delete;
  fork_queue& operator=(const fork_queue&) = delete;
  owner& as_owner() noexcept { return owner_; }
  thief as_thief() noexcept { return thief(*this); }

 private:
  std::atomic<T>& at(std::int64_t index) noexcept { return entries_[index & (capacity - 1)]; }

  alignas(cache_line) std::atomic<std::int64_t> top_{0};
  alignas(cache_line) std::atomic<std::int64_t> bottom_{0};
  std::atomic<T>* const entries_;
  owner owner_;
};

}  // namespace bwos
