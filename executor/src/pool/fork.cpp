// SPDX-License-Identifier: Apache-2.0
#include "pool/fork.hpp"

#include <pthread.h>

#include <system_error>

#include "base/fork_generation.hpp"

#include "io/worker_context.hpp"
#include "scheduler/scheduler.hpp"

namespace bwos {
namespace {

/// A worker that forked has a twin in the child, with the parent's reactor: that one must not get
/// to another task.
void begin_child() noexcept {
  ++fork_generation;
  for (worker_context* at = current_worker(); at != nullptr; at = at->outer) {
    if (at->scheduled_by != nullptr) at->scheduled_by->give_up();
  }
}

}  // namespace

void count_forks() {
  static const int error = ::pthread_atfork(nullptr, nullptr, &begin_child);
  if (error != 0) throw std::system_error(error, std::generic_category(), "pthread_atfork");
}

}  // namespace bwos
