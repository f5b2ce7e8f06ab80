// SPDX-License-Identifier: Apache-2.0
#include <bwos/fork/memory.hpp>
#include <utility>

namespace bwos::detail {

constinit thread_local fork_memory fork_memory::here{};

/// Allows the thread to keep blocks, and frees them when it ends.
struct fork_memory_guard {
  fork_memory_guard() noexcept { fork_memory::here.kept_max_ = fork_memory_kept_max; }
  fork_memory_guard(const fork_memory_guard&) = delete;
  fork_memory_guard& operator=(const fork_memory_guard&) = delete;
  ~fork_memory_guard() {
    fork_memory& mine = fork_memory::here;
    mine.kept_max_ = 0;
    for (fork_memory::block*& kept : mine.kept_) {
      while (kept != nullptr) ::operator delete(std::exchange(kept, kept->next));
    }
  }
};

/// There is no room: the thread has kept nothing yet, or as much as it may, or it ends.
void fork_memory::deallocate_elsewhere(void* memory, std::size_t bytes) noexcept {
  if (!std::exchange(here.begun_, true)) {
    static thread_local const fork_memory_guard guard;
    deallocate(memory, bytes);
    return;
  }
  ::operator delete(memory);
}

}  // namespace bwos::detail
