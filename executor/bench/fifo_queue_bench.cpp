// SPDX-License-Identifier: Apache-2.0
// Question: what does one queue operation cost its owner, alone and while a thief is at work?
// Expected: 128 blocks of 64 entries within 1.15 times a sequential ring, 8 of 1,024 within 1.05,
// and a thief that takes a tenth of all costs the owner at most a tenth more. Refuted by a thief
// that doubles the owner's cost. All shapes hold 8,192 entries, but those that differ in the number
// of blocks.
#include <benchmark/benchmark.h>

#include <array>
#include <cstddef>

#include <bwos/queue/fifo_queue.hpp>
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

template <std::size_t Entries, std::size_t Blocks>
using shape = fifo_queue<value, Entries, Blocks>;

/// share() before every get: the price of being work-conserving when somebody is idle.
template <class Queue>
void owner_shares_before_every_get(benchmark::State& state) {
  const auto queue = make_queue<Queue>(state);
  auto& owner = queue->as_owner();
  std::size_t operations = 0;
  for (auto _ : state) {
    operations += fill(owner);
    for (value v = 0; owner.share(), owner.get(v); ++operations) benchmark::ClobberMemory();
  }
  report(state, operations);
}

}  // namespace
}  // namespace bwos::bench

int main(int count, char** arguments) {
  using namespace bwos;
  using namespace bwos::bench;
  add<ring>("ring");
  add<shape<1024, 8>>("fifo_8x1024");
  add<shape<64, 128>>("fifo_128x64");
  add<shape<16, 512>>("fifo_512x16");
  add<shape<8, 1024>>("fifo_1024x8");
  add<shape<1, 8192>>("fifo_8192x1");
  add<mutex_queue<value, 64, 128>>("mutex");
  add_shapes<shape>("fifo");
  benchmark::RegisterBenchmark("fifo_128x64/share", &owner_shares_before_every_get<shape<64, 128>>);
  return run_benchmarks(count, arguments);
}
