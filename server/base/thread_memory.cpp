// SPDX-License-Identifier: Apache-2.0
#include "base/thread_memory.hpp"

#include <malloc.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <utility>

namespace bwos::server {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool on = false;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || \
    __has_feature(memory_sanitizer)
constexpr bool on = false;
#else
constexpr bool on = true;
#endif
#else
constexpr bool on = true;
#endif

// The classes are the sizes that glibc's blocks have, so that nothing is lost to rounding.
constexpr std::size_t granule = 16;
constexpr std::size_t least = 24;
constexpr std::size_t bytes_of(std::size_t index) noexcept {
  return index * granule + 8;
}
/// The class of blocks that hold `size` bytes.
constexpr std::size_t class_of(std::size_t size) noexcept {
  return (std::max(size, least) + granule - 8 - 1) / granule;
}
/// The largest class whose bytes a block of so many has.
constexpr std::size_t class_within(std::size_t size) noexcept {
  return (size - 8) / granule;
}
static_assert(class_of(24) == 1 && class_of(25) == 2 && class_of(40) == 2 && class_of(41) == 3);
static_assert(class_within(24) == 1 && class_within(39) == 1 && class_within(40) == 2);
static_assert(bytes_of(class_of(thread_memory::block_bytes_max)) == thread_memory::block_bytes_max);

struct block {
  block* next;
};

/// Without a constructor and a destructor, so that reaching it costs no look at whether it is
/// there.
struct lists {
  enum class state : std::uint8_t { fresh, in_use, ended };
  std::array<block*, class_of(thread_memory::block_bytes_max) + 1> kept{};
  std::size_t room = 0;  // bytes that may still be kept; none before the first, and at the end
  state now = state::fresh;
};
constinit thread_local lists mine;

void empty_lists() noexcept {
  for (block*& each : mine.kept) {
    while (each != nullptr) std::free(std::exchange(each, each->next));
  }
  mine.room = thread_memory::kept_max;
}

/// Allows the thread to keep blocks, and frees them when it ends.
struct lists_guard {
  lists_guard() noexcept {
    mine.room = thread_memory::kept_max;
    mine.now = lists::state::in_use;
  }
  lists_guard(const lists_guard&) = delete;
  lists_guard& operator=(const lists_guard&) = delete;
  ~lists_guard() {
    empty_lists();
    mine.room = 0;
    mine.now = lists::state::ended;
  }
};

void keep(void* memory, std::size_t index) noexcept {
  mine.room -= bytes_of(index);
  mine.kept[index] = ::new (memory) block{mine.kept[index]};
}

/// There is no room: the thread has kept nothing yet, or as much as it may, or it ends.
[[gnu::noinline]] void make_room_and_keep(void* memory, std::size_t index) noexcept {
  if (mine.now == lists::state::ended) return std::free(memory);
  if (mine.now == lists::state::fresh) {
    static thread_local const lists_guard guard;
  } else {
    empty_lists();
  }
  keep(memory, index);
}

void deallocate_in(void* memory, std::size_t index) noexcept {
  if (mine.room >= bytes_of(index)) [[likely]]
    return keep(memory, index);
  make_room_and_keep(memory, index);
}

}  // namespace

const bool thread_memory::is_on = on;

[[gnu::noinline]] void* thread_memory::allocate(std::size_t size) noexcept {
  if (!on || size > block_bytes_max) return std::malloc(size);
  const std::size_t index = class_of(size);
  block* const taken = mine.kept[index];
  if (taken == nullptr) return std::malloc(bytes_of(index));
  mine.kept[index] = taken->next;
  mine.room += bytes_of(index);
  return taken;
}

[[gnu::noinline]] void thread_memory::deallocate(void* memory) noexcept {
  if (memory == nullptr) return;
  const std::size_t size = on ? ::malloc_usable_size(memory) : 0;
  if (size < least || size > block_bytes_max) return std::free(memory);
  deallocate_in(memory, class_within(size));
}

[[gnu::noinline]] void thread_memory::deallocate(void* memory, std::size_t size) noexcept {
  if (!on || size > block_bytes_max) return std::free(memory);
  deallocate_in(memory, class_of(size));
}

[[gnu::noinline]] std::size_t thread_memory::kept() noexcept {
  return mine.now == lists::state::in_use ? kept_max - mine.room : 0;
}

[[gnu::noinline]] void thread_memory::give_back() noexcept {
  if (mine.now == lists::state::in_use) empty_lists();
}

}  // namespace bwos::server
