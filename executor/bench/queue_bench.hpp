// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <benchmark/benchmark.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <thread>

#include "named_bench.hpp"

// What the benchmarks of queues do again and again.

namespace bwos::bench {

using value = std::uintptr_t;
inline constexpr std::size_t capacity = 8192;

/// Puts until full, then gets until empty; returns the operations that succeeded.
template <class Owner>
std::size_t fill_and_drain(Owner& owner) {
  std::size_t operations = 0;
  for (value v = 0; owner.put(v); ++v) {
    ++operations;
    benchmark::ClobberMemory();
  }
  for (value v = 0; owner.get(v);) {
    ++operations;
    benchmark::DoNotOptimize(v);
    benchmark::ClobberMemory();
  }
  return operations;
}

inline void report(benchmark::State& state, std::size_t operations) {
  state.SetItemsProcessed(static_cast<std::int64_t>(operations));
  state.counters["op_ns"] = ns_per(operations);
}

/// Every entry stolen is one get less: puts are (operations + stolen) / 2.
inline void report_stolen(benchmark::State& state, std::size_t operations, std::size_t stolen) {
  report(state, operations);
  state.counters["stolen_percent"] =
      200.0 * static_cast<double>(stolen) / static_cast<double>(operations + stolen);
}

/// A thief on another thread beside the owner, which fills and drains. It takes `percent` of what
/// is put at most: as much as there is, and then it waits until the owner has put more.
/// `steal(queue, batch)` returns how many entries it has got.
template <class Queue, class Steal>
void owner_beside_thief(benchmark::State& state, std::int64_t percent, const Steal& steal) {
  const auto queue = std::make_unique<Queue>();
  std::atomic<std::size_t> operations{0};  // written once in 16,384 of them
  std::atomic<bool> done{false};
  std::size_t stolen = 0;
  std::thread robber([&] {
    value batch[Queue::block_entries];
    while (!done.load(std::memory_order_relaxed)) {
      const std::size_t put = (operations.load(std::memory_order_relaxed) + stolen) / 2;
      if (100 * stolen <= static_cast<std::size_t>(percent) * put) stolen += steal(*queue, batch);
    }
  });
  std::size_t count = 0;
  for (auto _ : state) {
    count += fill_and_drain(queue->as_owner());
    operations.store(count, std::memory_order_relaxed);
  }
  done.store(true, std::memory_order_relaxed);
  robber.join();
  report_stolen(state, count, stolen);
}

template <class Queue>
void owner_alone(benchmark::State& state) {
  const auto queue = std::make_unique<Queue>();
  std::size_t operations = 0;
  for (auto _ : state) operations += fill_and_drain(queue->as_owner());
  report(state, operations);
}

}  // namespace bwos::bench
