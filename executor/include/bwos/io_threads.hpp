// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bwos/continuation.hpp>
#include <bwos/options.hpp>
#include <bwos/statistics.hpp>
#include <cstddef>
#include <memory>

namespace bwos {

class io_host;

/// Dedicated reactor threads, for streams and listeners whose continuations run on an executor that
/// is not a bwos::pool. (A pool has its own: options::reactor_threads.)
///
/// Order of the end: the executor's threads; stop(); what the executor has not run is discarded;
/// this, which discards what waits on streams and timers. Not for children of fork().
class io_threads {
 public:
  /// Queues `work` on the executor, which hands it to run() once, or discards it. Any thread. What
  /// a reactor has found ready is posted as one, and each of it from within run() of that: an
  /// executor does well to queue all that a run() posts at once, when it returns.
  using post_function = void (*)(void* executor, continuation& work) noexcept;

  /// Starts settings.reactor_threads threads (1 or more); of the rest, reactor, receive_bytes and
  /// what concerns rings count. Throws std::invalid_argument, std::system_error.
  io_threads(const options& settings, post_function post, void* executor);
  ~io_threads();
  io_threads(const io_threads&) = delete;
  io_threads& operator=(const io_threads&) = delete;

  /// On a thread of the executor: runs `work`, lending it what workers of a pool have. The first
  /// call on a thread allocates that.
  void run(continuation& work) noexcept;

  /// The threads end; returns when they have. Not from one of the executor's while that is in
  /// run(). Idempotent.
  void stop();

  [[nodiscard]] const reactor_choice& choice() const noexcept;

  /// For the library's own I/O objects.
  [[nodiscard]] io_host& host() noexcept;

 private:
  class core;
  std::unique_ptr<core> core_;
};

/// As those of a pool (handler_memory.hpp), for handlers that the executor frees.
[[nodiscard]] void* allocate_handler(std::size_t size, io_threads& of);
void deallocate_handler(void* memory, std::size_t size, io_threads& of) noexcept;

}  // namespace bwos
