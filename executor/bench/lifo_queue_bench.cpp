// SPDX-License-Identifier: Apache-2.0
// Question: what does one operation of a LIFO queue cost its owner, alone and while a thief is at
// work? Expected: `lifo` of 8 blocks of 1,024 within 1.25 times a sequential stack, of 128 of 64
// within 1.35; `fork`, two stores and a compare more, below half of a Chase-Lev deque with its
// fence. Refuted by lifo 128x64 above 1.5 times `stack`, or by a fork 128x64 above `chase_lev`.
//
// op_ns is the time of one operation (a put or a get). A memory clobber after each keeps the
// queue's state out of registers, as in a worker that runs tasks between two operations. All shapes
// hold 8,192 entries. `alone` fills and drains; `pairs` puts and gets one entry above ten others,
// as fork-join does.
#include <benchmark/benchmark.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include <bwos/queue/fork_queue.hpp>
#include <bwos/queue/lifo_queue.hpp>
#include "queue_bench.hpp"

namespace bwos::bench {
namespace {

/// The bound: what a bounded stack costs when nobody can steal from it.
class stack {
 public:
  stack& as_owner() { return *this; }
  bool put(value v) {
    if (size_ == capacity) return false;
    entries_[size_++] = v;
    return true;
  }
  bool get(value& v) {
    if (size_ == 0) return false;
    v = entries_[--size_];
    return true;
  }

 private:
  std::size_t size_ = 0;
  std::array<value, capacity> entries_;
};

/// Chase and Lev's deque with the orders of Lê et al. (PPoPP '13), bounded. `Exchange`: the order
/// of a get comes from an exchange in place of store and fence.
template <bool Exchange>
class chase_lev {
 public:
  static constexpr std::size_t block_entries = 1;
  chase_lev& as_owner() { return *this; }
  chase_lev& as_thief() { return *this; }

  bool put(value v) {
    const std::int64_t bottom = bottom_.load(std::memory_order_relaxed);
    if (bottom - top_.load(std::memory_order_acquire) == std::int64_t{capacity}) return false;
    at(bottom).store(v, std::memory_order_relaxed);
    bottom_.store(bottom + 1, std::memory_order_release);
    return true;
  }

  bool get(value& v) {
    const std::int64_t bottom = bottom_.load(std::memory_order_relaxed) - 1;
    if constexpr (Exchange) {
      bottom_.exchange(bottom, std::memory_order_seq_cst);
    } else {
      bottom_.store(bottom, std::memory_order_relaxed);
      std::atomic_thread_fence(std::memory_order_seq_cst);
    }
    std::int64_t top = top_.load(std::memory_order_relaxed);
    if (top < bottom) {
      v = at(bottom).load(std::memory_order_relaxed);
      return true;
    }
    bool won = top == bottom;
    if (won) {
      v = at(bottom).load(std::memory_order_relaxed);
      won = top_.compare_exchange_strong(top, top + 1, std::memory_order_seq_cst,
                                         std::memory_order_relaxed);
    }
    bottom_.store(bottom + 1, std::memory_order_relaxed);
    return won;
  }

  steal_result steal(value* out, std::size_t) {
    std::int64_t top = top_.load(std::memory_order_acquire);
    std::atomic_thread_fence(std::memory_order_seq_cst);
    if (top >= bottom_.load(std::memory_order_acquire)) return {};
    *out = at(top).load(std::memory_order_relaxed);
    if (!top_.compare_exchange_strong(top, top + 1, std::memory_order_seq_cst,
                                      std::memory_order_relaxed)) {
      return {0, steal_status::conflict};
    }
    return {1, steal_status::ok};
  }

 private:
  std::atomic<value>& at(std::int64_t index) {
    return entries_[static_cast<std::size_t>(index) % capacity];
  }

  alignas(64) std::atomic<std::int64_t> bottom_{0};
  alignas(64) std::atomic<std::int64_t> top_{0};
  alignas(64) std::array<std::atomic<value>, capacity> entries_{};
};

template <std::size_t Entries, std::size_t Blocks>
struct fork_without_membarrier : fork_queue<value, Entries, Blocks> {
  fork_without_membarrier() : fork_queue<value, Entries, Blocks>(false) {}
};

template <class Queue>
void owner_in_pairs(benchmark::State& state) {
  const auto queue = std::make_unique<Queue>();
  auto& owner = queue->as_owner();
  for (value v = 0; v < 10; ++v) owner.put(v);
  std::size_t operations = 0;
  for (auto _ : state) {
    for (value v = 0; v < 1000; ++v) {
      owner.put(v);
      benchmark::ClobberMemory();
      value got = 0;
      owner.get(got);
      benchmark::DoNotOptimize(got);
      benchmark::ClobberMemory();
    }
    operations += 2000;
  }
  report(state, operations);
}

/// Range: the share of all that the thief may take, in %.
template <class Queue>
void owner_with_thief(benchmark::State& state) {
  owner_beside_thief<Queue>(state, state.range(0), [](Queue& queue, value* batch) {
    auto&& thief = queue.as_thief();
    return thief.steal(batch, Queue::block_entries).count;
  });
}

template <class Queue>
void add(const std::string& name) {
  benchmark::RegisterBenchmark((name + "/alone").c_str(), &owner_alone<Queue>);
  benchmark::RegisterBenchmark((name + "/pairs").c_str(), &owner_in_pairs<Queue>);
  if constexpr (requires(Queue& queue) { queue.as_thief(); }) {
    benchmark::RegisterBenchmark((name + "/thief").c_str(), &owner_with_thief<Queue>)
        ->ArgsProduct({{1, 5, 10, 20, 30}})
        ->UseRealTime();
  }
}

}  // namespace
}  // namespace bwos::bench

int main(int count, char** arguments) {
  using namespace bwos;
  using namespace bwos::bench;
  add<stack>("stack");
  add<lifo_queue<value, 1024, 8>>("lifo_8x1024");
  add<lifo_queue<value, 64, 128>>("lifo_128x64");
  add<fork_queue<value, 1024, 8>>("fork_8x1024");
  add<fork_queue<value, 64, 128>>("fork_128x64");
  add<fork_without_membarrier<64, 128>>("fork_128x64_without_membarrier");
  add<chase_lev<false>>("chase_lev_fence");
  add<chase_lev<true>>("chase_lev_exchange");
  return run_benchmarks(count, arguments);
}
