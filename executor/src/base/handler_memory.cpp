// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <bit>
#include <bwos/handler_memory.hpp>
#include <new>

namespace bwos {
namespace {

constexpr std::size_t smallest = 32;
constexpr std::size_t classes = 4;  // 32, 64, 128 and 256 bytes
static_assert(smallest << (classes - 1) == handler_block_max);

struct free_block {
  free_block* next;
};

/// Without a destructor, so that reaching it costs no look at whether it was constructed.
struct block_cache {
  enum class state : unsigned char { fresh, in_use, ended };
  std::array<free_block*, classes> first{};
  std::size_t room = 0;  // bytes that may still be kept; none before the first look and at the end
  state now = state::fresh;
};
constinit thread_local block_cache cache;

/// Empties the cache when its thread ends.
struct cache_guard {
  cache_guard() noexcept {
    cache.room = handler_memory_kept_max;
    cache.now = block_cache::state::in_use;
  }
  cache_guard(const cache_guard&) = delete;
  cache_guard& operator=(const cache_guard&) = delete;
  ~cache_guard() {
    for (free_block*& list : cache.first) {
      while (list != nullptr) {
        free_block* const freed = list;
        list = freed->next;
        ::operator delete(freed);
      }
    }
    cache.room = 0;
    cache.now = block_cache::state::ended;
  }
};

constexpr std::size_t class_of(std::size_t size) noexcept {
  return size <= smallest ? 0 : static_cast<std::size_t>(std::bit_width((size - 1) / smallest));
}
static_assert(class_of(32) == 0 && class_of(33) == 1 && class_of(64) == 1 && class_of(65) == 2);
static_assert(class_of(handler_block_max) == classes - 1);

[[gnu::noinline]] void free_or_begin(void* memory) noexcept {
  if (cache.now == block_cache::state::fresh) static thread_local const cache_guard guard;
  ::operator delete(memory);
}

}  // namespace

void* allocate_handler(std::size_t size) {
  if (size > handler_block_max) return ::operator new(size);
  const std::size_t index = class_of(size);
  free_block* const kept = cache.first[index];
  if (kept == nullptr) return ::operator new(smallest << index);
  cache.first[index] = kept->next;
  cache.room += smallest << index;
  return kept;
}

void deallocate_handler(void* memory, std::size_t size) noexcept {
  const std::size_t index = class_of(size);
  if (size > handler_block_max || cache.room < smallest << index) {
    free_or_begin(memory);
    return;
  }
  cache.room -= smallest << index;
  cache.first[index] = ::new (memory) free_block{cache.first[index]};
}

}  // namespace bwos
