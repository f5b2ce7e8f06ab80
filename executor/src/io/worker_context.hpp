// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>

namespace bwos {

class pool_core;
class reactor;
class scheduler;
class timer_service;

/// What a running continuation can reach of the worker that runs it.
struct worker_context {
  pool_core* pool = nullptr;          ///< Null on a thread of another executor (io_threads).
  scheduler* scheduled_by = nullptr;  ///< Of which this is a worker; null as above.
  reactor* home = nullptr;            ///< Null where no reactor is this thread's to poll.
  timer_service* timers = nullptr;    ///< home's, or the worker's own; those of io_threads.
  std::span<std::byte> scratch;       ///< Received bytes, until the next continuation runs.
  unsigned index = 0;
  worker_context* outer = nullptr;  ///< Whose continuation attached this thread to another pool.
};

/// The calling thread's worker; null elsewhere. Not inlined: a coroutine may go on on another
/// thread, and a compiler that saw the thread_local's address once would keep it across the
/// suspension.
[[gnu::noinline]] worker_context* current_worker() noexcept;
/// Returns the former one, to be restored: a thread may attach to one pool inside another.
worker_context* set_current_worker(worker_context* context) noexcept;

}  // namespace bwos
