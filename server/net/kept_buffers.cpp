// SPDX-License-Identifier: Apache-2.0
#include "net/kept_buffers.hpp"

#include <array>
#include <utility>

namespace bwos::server {
namespace {

/// Number of the kept ones among memory_budget::thread_buffers.
constexpr std::size_t which = 2;

/// The newest, whose memory is likely to be in a cache, is the last.
struct kept_buffers {
  static constexpr std::size_t count_max = 64;

  [[nodiscard]] byte_buffer remove(std::size_t at) noexcept {
    byte_buffer removed = std::move(buffers[at]);
    for (--count; at < count; ++at) buffers[at] = std::move(buffers[at + 1]);
    bytes -= removed.capacity();
    return removed;
  }

  std::array<byte_buffer, count_max> buffers;
  std::size_t count = 0;
  std::size_t bytes = 0;
};

thread_local kept_buffers kept;

}  // namespace

byte_buffer take_buffer(std::size_t bytes, memory_budget& memory) {
  const std::size_t capacity = buffer_bytes(bytes);
  if (capacity >= kept_buffer_bytes_min) {
    for (std::size_t i = kept.count; i-- > 0;) {
      if (kept.buffers[i].capacity() != capacity) continue;
      byte_buffer taken = kept.remove(i);
      memory.keep_buffer(which, kept.bytes);
      return taken;
    }
  }
  return byte_buffer(capacity);
}

void put_away(byte_buffer used, memory_budget& memory) noexcept {
  const std::size_t bytes = used.capacity();
  if (bytes < kept_buffer_bytes_min || bytes > kept_bytes_max) return;
  const std::size_t room = memory.is_tight() ? 0 : kept_bytes_max;
  while (kept.count > 0 && (kept.bytes + bytes > room || kept.count == kept_buffers::count_max)) {
    static_cast<void>(kept.remove(0));  // the oldest may be of a size that nobody needs any more
  }
  if (bytes <= room) {
    used.clear(bytes);
    kept.bytes += bytes;
    kept.buffers[kept.count++] = std::move(used);
  }
  memory.keep_buffer(which, kept.bytes);
}

}  // namespace bwos::server
