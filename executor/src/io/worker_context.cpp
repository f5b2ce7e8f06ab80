// SPDX-License-Identifier: Apache-2.0
#include "io/worker_context.hpp"

#include <bwos/fork/here.hpp>
#include <utility>

namespace bwos {

constinit thread_local detail::forks* detail::forks_here = nullptr;

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
