// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

namespace bwos {

class pool;

/// Memory of posted handlers: freed blocks are kept by the thread that frees them and reused by its
/// next allocations, so that a steady state of posting allocates nothing. A thread keeps at most
/// handler_memory_kept_max bytes, and frees them when it ends. What a worker has no room for goes
/// to its pool, which keeps as much of each size again for the threads that allocate more than they
/// free, and frees it when it ends. Blocks over handler_block_max bytes are not kept.
inline constexpr std::size_t handler_block_max = 256;
/// Derived: the handlers of a full queue (8,192), 64 bytes each.
inline constexpr std::size_t handler_memory_kept_max = 8192 * 64;

/// Aligned for any object that needs no extended alignment; for a handler that `of` will run.
/// Throws std::bad_alloc. Any thread.
[[nodiscard]] void* allocate_handler(std::size_t size, pool& of);
/// `size` as it was allocated with; on any thread.
void deallocate_handler(void* memory, std::size_t size) noexcept;

}  // namespace bwos
