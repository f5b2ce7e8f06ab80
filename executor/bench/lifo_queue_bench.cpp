// SPDX-License-Identifier: Apache-2.0
// Question: what does one operation of a LIFO queue cost its owner, alone and while a thief is at
// work? Expected: `lifo` of 8 blocks of 1,024 within 1.25 times a sequential stack, of 128 of 64
// within 1.35; `fork`, two stores and a compare more, below half of a Chase-Lev deque with its
// fence. Refuted by lifo 128x64 above 1.5 times `stack`, or by a fork 128x64 above `chase_lev`.
// All shapes hold 8,192 entries, but those that differ in the number of blocks.
#include <benchmark/benchmark.h>

#include <array>
#include <cstddef>
#include <cstdint>

#include <bwos/queue/fork_queue.hpp>
#include <bwos/queue/lifo_queue.hpp>
#include "abp_deque.hpp"
#include "chase_lev_deque.hpp"
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

template <std::size_t Entries, std::size_t Blocks>
struct fork_without_membarrier : fork_queue<value, Entries, Blocks> {
  fork_without_membarrier() : fork_queue<value, Entries, Blocks>(false) {}
};

template <std::size_t Entries, std::size_t Blocks>
using shape = lifo_queue<value, Entries, Blocks>;

}  // namespace
}  // namespace bwos::bench

int main(int count, char** arguments) {
  using namespace bwos;
  using namespace bwos::bench;
  add<stack>("stack");
  add<shape<1024, 8>>("lifo_8x1024");
  add<shape<64, 128>>("lifo_128x64");
  add<fork_queue<value, 1024, 8>>("fork_8x1024");
  add<fork_queue<value, 64, 128>>("fork_128x64");
  add<fork_without_membarrier<64, 128>>("fork_128x64_without_membarrier");
  add<chase_lev_deque<value, capacity, false>>("chase_lev_fence");
  add<chase_lev_deque<value, capacity, true>>("chase_lev_exchange");
  add<abp_deque<value, capacity>>("abp");
  add_shapes<shape>("lifo");
  return run_benchmarks(count, arguments);
}
