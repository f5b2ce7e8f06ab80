// SPDX-License-Identifier: Apache-2.0
#include "io/worker_context.hpp"

#include <utility>

namespace bwos {
namespace {
constinit thread_local worker_context* current = nullptr;
}  // namespace

worker_context* current_worker() noexcept {
  return current;
}

worker_context* set_current_worker(worker_context* context) noexcept {
  return std::exchange(current, context);
}

}  // namespace bwos
