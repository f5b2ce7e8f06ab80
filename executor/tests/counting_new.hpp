// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <new>

// Replaces operator new and delete of the test program that includes this, in one of its sources,
// by ones that count. Not inlined, because g++ else pairs a visible free() with an operator new and
// warns.

namespace counting_new {

inline std::atomic<std::size_t> calls{0};

/// Allocations of all threads since the start.
inline std::size_t allocations() noexcept {
  return calls.load(std::memory_order_relaxed);
}

}  // namespace counting_new

[[gnu::noinline]] void* operator new(std::size_t size) {
  counting_new::calls.fetch_add(1, std::memory_order_relaxed);
  if (void* memory = std::malloc(size == 0 ? 1 : size)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}
