// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <new>

// Memory of tasks, and of the coroutines and closures that fork-join makes; not for use of its own.
// What a thread frees it keeps for its own next ones: fork-join makes and frees one for each fork,
// a server one for each call.
//
// Each thread keeps at most fork_memory_kept_max bytes of each size, in blocks of up to
// fork_block_max bytes, and frees them when it ends.

namespace bwos::detail {

inline constexpr std::size_t fork_block_max = 1024;
inline constexpr std::size_t fork_memory_kept_max = std::size_t{1} << 18;

class fork_memory {
 public:
  /// Aligned as operator new does. Throws std::bad_alloc. Any thread.
  static void* allocate(std::size_t size) {
#if !defined(__SANITIZE_ADDRESS__)
    if (size <= fork_block_max) {
      fork_memory& mine = here;
      block*& kept = mine.kept_[class_of(size)];
      if (kept != nullptr) [[likely]] {
        block* const taken = kept;
        kept = taken->next;
        return taken;
      }
      return ::operator new(bytes_of(class_of(size)));
    }
#endif
    return ::operator new(size);
  }

  /// `size` as it was allocated with. Any thread.
  static void deallocate(void* memory, [[maybe_unused]] std::size_t size) noexcept {
#if !defined(__SANITIZE_ADDRESS__)
    if (size <= fork_block_max) {
      fork_memory& mine = here;
      const std::size_t bytes = bytes_of(class_of(size));
      block*& kept = mine.kept_[class_of(size)];
      const std::size_t count = kept == nullptr ? 1 : kept->count + 1;
      if (count * bytes <= mine.kept_max_) [[likely]] {
        kept = ::new (memory) block{kept, count};
        return;
      }
      deallocate_elsewhere(memory, bytes);
      return;
    }
#endif
    ::operator delete(memory);
  }

 private:
  // The count lies in the block, as one for all would be the same word in every fork.
  struct block {
    block* next;
    std::size_t count;  // of it and those behind it
  };
  static constexpr std::size_t granule = 32;
  static constexpr std::size_t class_of(std::size_t size) noexcept { return (size - 1) / granule; }
  static constexpr std::size_t bytes_of(std::size_t index) noexcept {
    return (index + 1) * granule;
  }
  static void deallocate_elsewhere(void* memory, std::size_t bytes) noexcept;
  friend struct fork_memory_guard;

  // No constructor and no destructor, so that reaching it costs no look at whether it is there.
  std::array<block*, fork_block_max / granule> kept_;
  std::size_t kept_max_;  // of each size; none before the first is freed, and at the end
  bool begun_;

  [[gnu::tls_model("initial-exec")]] static thread_local fork_memory here;
};

/// The same for containers.
template <class T>
struct fork_allocator {
  using value_type = T;

  fork_allocator() noexcept = default;
  template <class Other>
  fork_allocator(const fork_allocator<Other>& /*same*/) noexcept {}

  [[nodiscard]] T* allocate(std::size_t count) {
    if (count > std::size_t(-1) / sizeof(T)) throw std::bad_array_new_length();
    return static_cast<T*>(fork_memory::allocate(count * sizeof(T)));
  }
  void deallocate(T* memory, std::size_t count) noexcept {
    fork_memory::deallocate(memory, count * sizeof(T));
  }
  [[nodiscard]] bool operator==(const fork_allocator&) const noexcept = default;
};

}  // namespace bwos::detail
