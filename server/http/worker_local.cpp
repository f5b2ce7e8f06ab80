// SPDX-License-Identifier: Apache-2.0
#include "http/worker_local.hpp"

#include "http/limits.hpp"

namespace bwos::server {

worker_local& this_worker() noexcept {
  thread_local worker_local mine;
  mine.output.clear(output_bytes_kept);
  return mine;
}

}  // namespace bwos::server
