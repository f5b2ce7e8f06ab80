// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <bwos/statistics.hpp>
#include <cstdint>

namespace bwos {

/// A number that one thread writes and any thread reads.
class owner_counter {
 public:
  // [counter.add.load] relaxed: the writer's own last value. Partner: none, one thread writes.
  // [counter.add.store] relaxed: a reader needs some recent value, orders nothing by it. Partner:
  // [counter.read].
  void add(std::uint64_t n) noexcept {
    value_.store(value_.load(std::memory_order_relaxed) + n, std::memory_order_relaxed);
  }
  // [counter.read] relaxed: statistics; see above. Partner: [counter.add.store].
  [[nodiscard]] std::uint64_t read() const noexcept {
    return value_.load(std::memory_order_relaxed);
  }

 private:
  std::atomic<std::uint64_t> value_{0};
};

/// The counters of one worker: written by it alone.
struct worker_counters {
#define BWOS_FIELD(name, meaning) owner_counter name;
  BWOS_WORKER_COUNTERS(BWOS_FIELD)
#undef BWOS_FIELD

  [[nodiscard]] worker_statistics snapshot() const noexcept {
    worker_statistics result;
#define BWOS_FIELD(name, meaning) result.name = name.read();
    BWOS_WORKER_COUNTERS(BWOS_FIELD)
#undef BWOS_FIELD
    return result;
  }
};

}  // namespace bwos
