// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <benchmark/benchmark.h>

#include <cstddef>
#include <cstdint>
#include <memory>

// What the benchmarks of queues do again and again.

namespace bwos::bench {

using value = std::uintptr_t;
inline constexpr std::size_t capacity = 8192;

/// A counter that prints the time of one operation, such as 2.1ns.
inline benchmark::Counter time_per(std::size_t operations) {
  return {static_cast<double>(operations),
          benchmark::Counter::kIsRate | benchmark::Counter::kInvert};
}

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
  state.counters["per_op"] = time_per(operations);
}

/// Every entry stolen is one get less: puts are (operations + stolen) / 2.
inline void report_stolen(benchmark::State& state, std::size_t operations, std::size_t stolen) {
  report(state, operations);
  state.counters["stolen_%"] =
      200.0 * static_cast<double>(stolen) / static_cast<double>(operations + stolen);
}

template <class Queue>
void owner_alone(benchmark::State& state) {
  const auto queue = std::make_unique<Queue>();
  std::size_t operations = 0;
  for (auto _ : state) operations += fill_and_drain(queue->as_owner());
  report(state, operations);
}

}  // namespace bwos::bench
