// SPDX-License-Identifier: Apache-2.0
#include "net/kept_buffers.hpp"

#include <utility>

#include "net/buffer_list.hpp"

namespace bwos::server {
namespace {

thread_local buffer_list kept;

}  // namespace

byte_buffer take_buffer(std::size_t bytes, memory_budget& memory) {
  const std::size_t capacity = buffer_bytes(bytes);
  if (capacity < kept_buffer_bytes_min || capacity > kept_bytes_max) return byte_buffer(capacity);
  byte_buffer taken = kept.take(capacity);
  if (taken.capacity() > 0) {
    memory.keep_buffer(thread_buffer::bodies, kept.bytes());
    return taken;
  }
  taken = memory.take_spare(capacity);
  return taken.capacity() > 0 ? std::move(taken) : byte_buffer(capacity);
}

void put_away(byte_buffer used, memory_budget& memory) noexcept {
  const std::size_t bytes = used.capacity();
  if (bytes < kept_buffer_bytes_min || bytes > kept_bytes_max) return;
  const bool is_tight = memory.is_tight();
  while (!kept.empty() && (is_tight || !kept.has_room(bytes, kept_bytes_max))) {
    // The oldest: it may be of a size that this thread needs no more.
    memory.put_spare(kept.take_oldest());
  }
  if (!is_tight) kept.put(std::move(used));
  memory.keep_buffer(thread_buffer::bodies, kept.bytes());
}

}  // namespace bwos::server
