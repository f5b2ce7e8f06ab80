// SPDX-License-Identifier: Apache-2.0
// Freed memory of posted handlers on its way from a pool's workers, which free what others have
// posted, to the threads outside, which allocate what others will free. Without it each such block
// goes through the C library's arena, where poster and workers meet at every one (measured: half
// of the cost of a post from outside). Chains of blocks, so that they meet here once in
// chain_blocks.
//
// INVARIANTS
// H1  A block belongs to one thread's cache, or to a chain here, or is allocated.
//       handler_memory_test: blocks_hold_what_was_asked_for_and_do_not_overlap
// H2  No more than handler_memory_kept_max bytes of a size lie here.
//       handler_memory_test: a_pool_keeps_no_more_than_its_limit
#pragma once

#include <array>
#include <bit>
#include <bwos/handler_memory.hpp>
#include <cstddef>
#include <mutex>
#include <new>

#include <bwos/base/atomic.hpp>
#include <bwos/base/cache_line.hpp>
#include "base/mutex.hpp"

namespace bwos {

struct free_block {
  free_block* next;
};

inline void free_chain(free_block* chain) noexcept {
  while (chain != nullptr) {
    free_block* const freed = chain;
    chain = freed->next;
    ::operator delete(freed);
  }
}

/// Size classes of handler memory: 32, 64, 128 and 256 bytes.
struct handler_class {
  static constexpr std::size_t smallest = 32;
  static constexpr std::size_t count = 4;
  static_assert(smallest << (count - 1) == handler_block_max);

  static constexpr std::size_t of(std::size_t size) noexcept {
    return size <= smallest ? 0 : static_cast<std::size_t>(std::bit_width((size - 1) / smallest));
  }
  static constexpr std::size_t bytes(std::size_t index) noexcept { return smallest << index; }
};
static_assert(handler_class::of(32) == 0 && handler_class::of(33) == 1);
static_assert(handler_class::of(64) == 1 && handler_class::of(65) == 2);
static_assert(handler_class::of(handler_block_max) == handler_class::count - 1);

class alignas(cache_line) handler_depot {
 public:
  static constexpr std::size_t chain_blocks = 64;

  handler_depot() noexcept = default;
  handler_depot(const handler_depot&) = delete;
  handler_depot& operator=(const handler_depot&) = delete;
  ~handler_depot() {
    for (shelf& each : shelves_) {
      while (each.count() != 0) free_chain(each.pop());
    }
  }

  /// Takes over a chain of chain_blocks; when there is no room it is freed.
  void give(std::size_t index, free_block* chain) noexcept {
    {
      const std::lock_guard guard(lock_);
      shelf& here = shelves_[index];
      if (here.count() * chain_blocks * handler_class::bytes(index) < handler_memory_kept_max) {
        here.push(chain);
        return;
      }
    }
    free_chain(chain);
  }

  /// A chain of chain_blocks, or null. Takes the lock only where there may be one.
  free_block* take(std::size_t index) noexcept {
    shelf& here = shelves_[index];
    if (here.count() == 0) return nullptr;
    const std::lock_guard guard(lock_);
    return here.count() == 0 ? nullptr : here.pop();
  }

 private:
  class shelf {
   public:
    [[nodiscard]] std::size_t count() const noexcept {
      // [depot.look] relaxed: exact under the lock, else a hint. Partner: [depot.count].
      return count_.load(std::memory_order_relaxed);
    }
    void push(free_block* chain) noexcept {
      const std::size_t at = count();
      chains_[at] = chain;
      set_count(at + 1);
    }
    free_block* pop() noexcept {
      const std::size_t at = count() - 1;
      set_count(at);
      return chains_[at];
    }

   private:
    void set_count(std::size_t count) noexcept {
      // [depot.count] relaxed: under the lock, which orders the chains. Partner: [depot.look].
      count_.store(count, std::memory_order_relaxed);
    }

    atomic<std::size_t> count_{0};
    std::array<free_block*, handler_memory_kept_max / (chain_blocks * handler_class::smallest)>
        chains_;
  };

  mutex lock_;
  std::array<shelf, handler_class::count> shelves_;
};

}  // namespace bwos
