// SPDX-License-Identifier: Apache-2.0
// Large buffers that a thread keeps for the bodies that come next. malloc() gives their pages back
// to the system when one is freed, and the next one has them mapped anew, page by page: 66 faults
// and half of the CPU for 256 KiB echoed.
//
// Each has one of few sizes, so that what one body leaves fits another. A body may end on another
// thread than it has begun on: what is more than a thread keeps goes to the others by way of the
// budget. What is kept is charged as `buffers`, what is taken by whoever takes it.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>

#include "net/byte_buffer.hpp"
#include "net/memory_budget.hpp"

namespace bwos::server {

/// Smaller buffers are not kept: malloc() does well with them.
inline constexpr std::size_t kept_buffer_bytes_min = 32 * 1024;
/// What a thread keeps at most: a few bodies of --body-bytes-max's default.
inline constexpr std::size_t kept_bytes_max = 4 * 1024 * 1024;

/// The size of a buffer for `bytes`: a power of two, and above that what stands before a body.
constexpr std::size_t buffer_bytes(std::size_t bytes) noexcept {
  constexpr std::size_t more = 4 * 1024;
  if (bytes <= kept_buffer_bytes_min) return std::bit_ceil(std::max<std::size_t>(bytes, 64));
  return std::bit_ceil(bytes - more) + more;
}

/// An empty buffer of buffer_bytes(bytes), which the caller has charged. Throws std::bad_alloc.
[[nodiscard]] byte_buffer take_buffer(std::size_t bytes, memory_budget& memory);
/// What nobody needs any more, and the caller no longer charges. While memory is tight all that the
/// thread has, and what is spare, is freed.
void put_away(byte_buffer used, memory_budget& memory) noexcept;

}  // namespace bwos::server
