// SPDX-License-Identifier: Apache-2.0
// Memory of what comes and goes with each stream of HTTP/2: nghttp2's objects, calls, their
// replies, coroutines. The thread that frees a block keeps it for its own next ones, so that a
// steady state does not go to the C library, whose own lists hold seven blocks of a size.
//
// INVARIANTS
// K1  A block in a list has at least the bytes of its class: it was asked of the C library as
//     large, or that says so.
// K2  A thread keeps no more than kept_max bytes. A block for which there is no room first has all
//     lists emptied: they may be full of sizes that nobody asks for any more.
// Test: thread_memory_test.cpp
#pragma once

#include <cstddef>
#include <new>

namespace bwos::server {

/// All members: any thread, for itself. They are not inlined, so that no coroutine keeps the
/// address of one thread's lists across a suspension.
class thread_memory {
 public:
  /// Larger blocks are the C library's alone. A call, the largest that each request needs, takes
  /// some 600.
  static constexpr std::size_t block_bytes_max = 1016;
  /// Derived: a batch of calls, of which 64 KiB of input hold at most about a thousand, 1 to 2 KiB
  /// each. They come back to the lists when its answers are sent.
  static constexpr std::size_t kept_max = std::size_t{1} << 20;

  /// Aligned for any object that needs no extended alignment; null: there is none.
  [[nodiscard]] static void* allocate(std::size_t size) noexcept;
  /// Of any size, also what the C library has allocated. Null is left alone.
  static void deallocate(void* memory) noexcept;
  /// `size` as it was allocated with.
  static void deallocate(void* memory, std::size_t size) noexcept;

  /// Bytes that the calling thread keeps.
  [[nodiscard]] static std::size_t kept() noexcept;
  /// Gives back all that it keeps.
  static void give_back() noexcept;

  /// Off under the sanitizers, which have to see each use of what was freed.
  static const bool is_on;
};

/// A standard library's allocator of it.
template <class T>
struct thread_allocator {
  using value_type = T;

  thread_allocator() noexcept = default;
  template <class Other>
  explicit(false) thread_allocator(const thread_allocator<Other>& /*same*/) noexcept {}

  [[nodiscard]] T* allocate(std::size_t count) {
    void* const memory = thread_memory::allocate(count * sizeof(T));
    if (memory == nullptr) throw std::bad_alloc();
    return static_cast<T*>(memory);
  }
  void deallocate(T* memory, std::size_t count) noexcept {
    thread_memory::deallocate(memory, count * sizeof(T));
  }
  bool operator==(const thread_allocator&) const noexcept = default;
};

/// A base of what is allocated there.
struct in_thread_memory {
  [[nodiscard]] static void* operator new(std::size_t size) {
    void* const memory = thread_memory::allocate(size);
    if (memory == nullptr) throw std::bad_alloc();
    return memory;
  }
  static void operator delete(void* memory, std::size_t size) noexcept {
    thread_memory::deallocate(memory, size);
  }
};

}  // namespace bwos::server
