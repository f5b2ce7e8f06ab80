// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "base/ticks.hpp"
#include "http/date.hpp"
#include "http/h1/parser.hpp"
#include "net/byte_buffer.hpp"
#include "net/memory_budget.hpp"

namespace bwos::server {

/// What a worker lends to the connection that it runs.
struct worker_local {
  using clock = std::chrono::steady_clock;

  byte_buffer output;
  std::string text;  ///< For handlers that make their body.
  date_cache date;
  /// For a connection that has none. Null: one that it was lent to has kept it.
  std::unique_ptr<h1::parser> parser;

  /// steady_clock, at most a millisecond late: read anew only when that much has passed.
  clock::time_point coarse_now(metrics::ticks ticks, metrics::ticks ticks_per_ms) noexcept {
    // Unsigned: a counter that runs behind (another processor's) counts as having passed.
    if (ticks - read_at_ > ticks_per_ms) [[unlikely]] {
      read_at_ = ticks;
      now_ = clock::now();
    }
    return now_;
  }

 private:
  metrics::ticks read_at_ = 0;
  clock::time_point now_;
};

/// An output buffer of the thread, whose bytes have been sent or moved: its memory is charged, or
/// given up while there is little.
void settle(byte_buffer& output, memory_budget& memory, thread_buffer which) noexcept;

/// The same of what the thread keeps for its next streams (base/thread_memory.hpp).
void settle_thread_memory(memory_budget& memory) noexcept;

/// Not inlined, so that no compiler keeps the address of one thread's across a suspension (C1).
[[gnu::noinline]] worker_local& this_worker() noexcept;

}  // namespace bwos::server
