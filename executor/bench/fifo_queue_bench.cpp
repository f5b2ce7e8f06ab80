// SPDX-License-Identifier: Apache-2.0
// Question: what does one queue operation cost its owner, alone and while a thief is at work?
// Expected: 128 blocks of 64 entries within 1.15 times a sequential ring, 8 of 1,024 within 1.05,
// and a thief that takes a tenth of all costs the owner at most a tenth more. Refuted by a thief
// that doubles the owner's cost.
//
// op_ns is the time of one operation (a put or a get). A memory clobber after each keeps the
// queue's state out of registers, as in a worker that runs tasks between two operations. All shapes
// hold 8,192 entries.
#include <benchmark/benchmark.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include <bwos/queue/fifo_queue.hpp>
#include "base/random.hpp"
#include "queue/mutex_queue.hpp"
#include "queue_bench.hpp"

namespace bwos::bench {
namespace {

/// The bound: what a bounded FIFO costs when nobody can steal from it.
class ring {
 public:
  ring& as_owner() { return *this; }
  bool put(value v) {
    if (back_ - front_ == capacity) return false;
    entries_[back_++ % capacity] = v;
    return true;
  }
  bool get(value& v) {
    if (back_ == front_) return false;
    v = entries_[front_++ % capacity];
    return true;
  }

 private:
  std::size_t back_ = 0;
  std::size_t front_ = 0;
  std::array<value, capacity> entries_;
};

/// Ranges: entries per steal at most, and the share of all that the thief may take, in %.
template <class Queue>
void owner_with_thief(benchmark::State& state) {
  const auto batch_max = static_cast<std::size_t>(state.range(0));
  const std::size_t max = batch_max < Queue::block_entries ? batch_max : Queue::block_entries;
  random_source random(1);
  owner_beside_thief<Queue>(state, state.range(1), [&](Queue& queue, value* batch) {
    const auto thief = queue.as_thief();
    const std::size_t block = random.below(Queue::block_count);
    return thief.sample(block) ? thief.steal(block, batch, max).count : std::size_t{0};
  });
}

/// share() before every get: the price of being work-conserving when somebody is idle.
template <class Queue>
void owner_shares_before_every_get(benchmark::State& state) {
  const auto queue = std::make_unique<Queue>();
  auto& owner = queue->as_owner();
  std::size_t operations = 0;
  for (auto _ : state) {
    for (value v = 0; owner.put(v); ++v) ++operations;
    for (value v = 0; owner.share(), owner.get(v); ++operations) benchmark::ClobberMemory();
  }
  report(state, operations);
}

BENCHMARK(owner_alone<ring>)->Name("ring/alone");
BENCHMARK(owner_alone<fifo_queue<value, 1024, 8>>)->Name("fifo_8x1024/alone");
BENCHMARK(owner_alone<fifo_queue<value, 64, 128>>)->Name("fifo_128x64/alone");
BENCHMARK(owner_alone<fifo_queue<value, 16, 512>>)->Name("fifo_512x16/alone");
BENCHMARK(owner_alone<fifo_queue<value, 8, 1024>>)->Name("fifo_1024x8/alone");
BENCHMARK(owner_alone<fifo_queue<value, 1, 8192>>)->Name("fifo_8192x1/alone");
BENCHMARK(owner_alone<mutex_queue<value, 64, 128>>)->Name("mutex/alone");
BENCHMARK(owner_shares_before_every_get<fifo_queue<value, 64, 128>>)->Name("fifo_128x64/share");
const std::vector<std::vector<std::int64_t>> shares{{32}, {1, 5, 10, 20, 30}};
const std::vector<std::vector<std::int64_t>> batches{{1, 4, 8, 16, 64}, {20}};
BENCHMARK(owner_with_thief<fifo_queue<value, 1024, 8>>)
    ->Name("fifo_8x1024/thief")
    ->ArgsProduct(shares)
    ->ArgsProduct(batches)
    ->UseRealTime();
BENCHMARK(owner_with_thief<fifo_queue<value, 64, 128>>)
    ->Name("fifo_128x64/thief")
    ->ArgsProduct(shares)
    ->ArgsProduct(batches)
    ->UseRealTime();
BENCHMARK(owner_with_thief<fifo_queue<value, 16, 512>>)
    ->Name("fifo_512x16/thief")
    ->ArgsProduct(shares)
    ->UseRealTime();
BENCHMARK(owner_with_thief<mutex_queue<value, 64, 128>>)
    ->Name("mutex/thief")
    ->ArgsProduct(shares)
    ->UseRealTime();

}  // namespace
}  // namespace bwos::bench

int main(int count, char** arguments) {
  return bwos::bench::run_benchmarks(count, arguments);
}
