// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <bwos/handler_memory.hpp>
#include <bwos/io_threads.hpp>
#include <bwos/pool.hpp>
#include <new>
#include <utility>

#include "base/handler_depot.hpp"
#include "io/io_host.hpp"
#include "pool/pool_core.hpp"

namespace bwos {
namespace {

/// Without a destructor, so that reaching it costs no look at whether it was constructed.
struct block_cache {
  enum class state : unsigned char { fresh, in_use, ended };
  struct list {
    free_block* kept = nullptr;
    free_block* leaving = nullptr;  // what kept has no room for, until it is a chain
    std::size_t leaving_count = 0;
  };
  std::array<list, handler_class::count> lists{};
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
    for (block_cache::list& each : cache.lists) {
      free_chain(std::exchange(each.kept, nullptr));
      free_chain(std::exchange(each.leaving, nullptr));
    }
    cache.room = 0;
    cache.now = block_cache::state::ended;
  }
};

void begin() noexcept {
  if (cache.now == block_cache::state::fresh) static thread_local const cache_guard guard;
}

[[gnu::noinline]] void* allocate_elsewhere(std::size_t index, handler_depot& of) {
  begin();
  block_cache::list& list = cache.lists[index];
  if (free_block* const leaving = list.leaving) {
    list.leaving = leaving->next;
    --list.leaving_count;
    return leaving;
  }
  const std::size_t size = handler_class::bytes(index);
  if (cache.room >= handler_depot::chain_blocks * size) {
    if (free_block* const chain = of.take(index)) {
      cache.room -= (handler_depot::chain_blocks - 1) * size;
      list.kept = chain->next;
      return chain;
    }
  }
  return ::operator new(size);
}

/// The depot of the pool on whose worker this is; null elsewhere.
handler_depot* depot_here() noexcept {
  const worker_context* const here = current_worker();
  return here == nullptr || here->pool == nullptr ? nullptr : &here->pool->handlers;
}

[[gnu::noinline]] void deallocate_elsewhere(void* memory, std::size_t index,
                                            handler_depot* of) noexcept {
  begin();
  if (of == nullptr || cache.now == block_cache::state::ended) {
    ::operator delete(memory);
    return;
  }
  block_cache::list& list = cache.lists[index];
  list.leaving = ::new (memory) free_block{list.leaving};
  if (++list.leaving_count < handler_depot::chain_blocks) return;
  list.leaving_count = 0;
  of->give(index, std::exchange(list.leaving, nullptr));
}

void* allocate(std::size_t size, handler_depot& of) {
  if (size > handler_block_max) return ::operator new(size);
  const std::size_t index = handler_class::of(size);
  free_block*& kept = cache.lists[index].kept;
  if (kept == nullptr) return allocate_elsewhere(index, of);
  free_block* const taken = kept;
  kept = taken->next;
  __builtin_prefetch(kept, 1);  // another thread may have written it last
  cache.room += handler_class::bytes(index);
  return taken;
}

template <class Depot>
void deallocate(void* memory, std::size_t size, Depot depot) noexcept {
  if (size > handler_block_max) {
    ::operator delete(memory);
    return;
  }
  const std::size_t index = handler_class::of(size);
  if (cache.room < handler_class::bytes(index)) {
    deallocate_elsewhere(memory, index, depot());
    return;
  }
  cache.room -= handler_class::bytes(index);
  free_block*& kept = cache.lists[index].kept;
  kept = ::new (memory) free_block{kept};
}

}  // namespace

void* allocate_handler(std::size_t size, pool& of) {
  return allocate(size, of.core().handlers);
}
void* allocate_handler(std::size_t size, io_threads& of) {
  return allocate(size, of.host().handlers);
}

void deallocate_handler(void* memory, std::size_t size) noexcept {
  deallocate(memory, size, &depot_here);
}
void deallocate_handler(void* memory, std::size_t size, io_threads& of) noexcept {
  deallocate(memory, size, [&of] { return &of.host().handlers; });
}

}  // namespace bwos
