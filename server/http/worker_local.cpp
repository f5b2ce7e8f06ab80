// SPDX-License-Identifier: Apache-2.0
#include "http/worker_local.hpp"

#include "base/thread_memory.hpp"
#include "http/limits.hpp"

namespace bwos::server {

worker_local& this_worker() noexcept {
  thread_local worker_local mine;
  mine.output.clear(output_bytes_kept);
  return mine;
}

void settle(byte_buffer& output, memory_budget& memory, thread_buffer which) noexcept {
  if (output.capacity() > output_bytes_max && memory.is_tight()) output.clear(0);
  memory.keep_buffer(which, output.capacity());
}

void settle_thread_memory(memory_budget& memory) noexcept {
  constexpr std::size_t step = 64 * 1024;  // a charge for each batch would cost more than it tells
  std::size_t kept = thread_memory::kept();
  if (kept > step && memory.is_tight()) {
    thread_memory::give_back();
    kept = 0;
  }
  memory.keep_buffer(thread_buffer::objects, (kept + step - 1) / step * step);
}

}  // namespace bwos::server
