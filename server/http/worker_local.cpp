// SPDX-License-Identifier: Apache-2.0
#include "http/worker_local.hpp"

#include "http/limits.hpp"

namespace bwos::server {

worker_local& this_worker() noexcept {
  thread_local worker_local mine;
  mine.output.clear(output_bytes_kept);
  return mine;
}

void settle(byte_buffer& output, memory_budget& memory, std::size_t which) noexcept {
  if (output.capacity() > output_bytes_max && memory.is_tight()) output.clear(0);
  memory.keep_buffer(which, output.capacity());
}

}  // namespace bwos::server
