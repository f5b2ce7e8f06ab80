// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <limits>
#include <new>

// Replaces operator new and delete of the test program that includes this, in one of its sources,
// by ones that count, and that find no memory where a test says so. Not inlined, because g++ else
// pairs a visible free() with an operator new and warns.

namespace counting_new {

inline std::atomic<std::size_t> calls{0};

/// Allocations of all threads since the start.
inline std::size_t allocations() noexcept {
  return calls.load(std::memory_order_relaxed);
}

inline constexpr std::size_t never = std::numeric_limits<std::size_t>::max();
inline std::atomic<std::size_t> first_refused{never};
inline std::atomic<std::size_t> last_refused{never};

/// Of all threads' allocations from now on, those from the `first`, counted from 0, to the `last`
/// throw std::bad_alloc, until it goes out of scope.
class no_memory {
 public:
  explicit no_memory(std::size_t first = 0, std::size_t last = never / 2) noexcept {
    const std::size_t made = allocations();
    last_refused.store(made + last);
    first_refused.store(made + first);
  }
  no_memory(const no_memory&) = delete;
  no_memory& operator=(const no_memory&) = delete;
  ~no_memory() { first_refused.store(never); }
};

}  // namespace counting_new

[[gnu::noinline]] void* operator new(std::size_t size) {
  const std::size_t call = counting_new::calls.fetch_add(1, std::memory_order_relaxed);
  if (call >= counting_new::first_refused.load(std::memory_order_relaxed) &&
      call <= counting_new::last_refused.load(std::memory_order_relaxed)) {
    throw std::bad_alloc();
  }
  if (void* memory = std::malloc(size == 0 ? 1 : size)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  try {
    return ::operator new(size);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}
/// Those of arrays come here, too. The C++ library's own do, but the address sanitizer's do not.
[[gnu::noinline]] void* operator new[](std::size_t size) {
  return ::operator new(size);
}
[[gnu::noinline]] void operator delete(void* memory) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete[](void* memory) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete[](void* memory, std::size_t) noexcept {
  std::free(memory);
}
