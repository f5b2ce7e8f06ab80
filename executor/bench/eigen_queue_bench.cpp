// SPDX-License-Identifier: Apache-2.0
// A side of the questions `fifo` and `lifo`: the RunQueue of Eigen's thread pool, an array whose
// entries have a state each. Its owner alone works at the front, without a lock; everybody else at
// the back, under one.
#include <benchmark/benchmark.h>

#include <cstddef>
#include <unsupported/Eigen/CXX11/ThreadPool>

#include "queue_bench.hpp"

namespace bwos::bench {
namespace {

/// The owner puts to the front, and thieves take the oldest entry from the back, one at a time: so
/// does Eigen's pool. In LIFO order the owner gets from the front. In FIFO order it gets from the
/// back, as thieves do. PushBack and PopFront would be a FIFO for the owner too, and would lock
/// once a pair as well, but thieves would get the newest entries.
template <bool Fifo>
class run_queue {
 public:
  static constexpr std::size_t block_entries = 1;  // of which a steal gets one
  ~run_queue() { queue_.Flush(); }
  run_queue& as_owner() { return *this; }
  run_queue& as_thief() { return *this; }

  bool put(value v) { return queue_.PushFront(v) == 0; }
  bool get(value& v) {
    v = Fifo ? queue_.PopBack() : queue_.PopFront();
    return v != 0;
  }
  bool sample() const { return queue_.Size() != 0; }
  steal_result steal(value* out, std::size_t /*one*/) {
    *out = queue_.PopBack();
    if (*out == 0) return {};
    return {1, steal_status::ok};
  }

 private:
  Eigen::RunQueue<value, capacity> queue_;
};

}  // namespace
}  // namespace bwos::bench

int main(int count, char** arguments) {
  using namespace bwos::bench;
  add<run_queue<true>>("fifo");
  add<run_queue<false>>("lifo");
  return run_benchmarks(count, arguments);
}
