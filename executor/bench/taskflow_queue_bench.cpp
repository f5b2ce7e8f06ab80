// SPDX-License-Identifier: Apache-2.0
// A side of the question `lifo`: the queue of Taskflow's workers, the deque of Chase and Lev with
// the orders of Lê et al. (PPoPP '13).
#include <benchmark/benchmark.h>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <taskflow/taskflow.hpp>

#include "queue_bench.hpp"

namespace bwos::bench {
namespace {

/// Entries are pointers, as Taskflow's own: then null says that there is none.
class deque {
 public:
  static constexpr std::size_t block_entries = 1;  // of which a steal gets one
  deque& as_owner() { return *this; }
  deque& as_thief() { return *this; }

  bool put(value v) { return queue_.try_push(reinterpret_cast<void*>(v)); }
  bool get(value& v) { return is_entry(queue_.pop(), v); }
  bool sample() const { return !queue_.empty(); }
  steal_result steal(value* out, std::size_t /*one*/) {
    if (!is_entry(queue_.steal(), *out)) return {};
    return {1, steal_status::ok};
  }

 private:
  static bool is_entry(void* entry, value& v) {
    v = reinterpret_cast<value>(entry);
    return entry != nullptr;
  }

  tf::BoundedWSQ<void*, std::bit_width(capacity) - 1> queue_;
};

}  // namespace
}  // namespace bwos::bench

int main(int count, char** arguments) {
  using namespace bwos::bench;
  add<deque>("bounded");
  return run_benchmarks(count, arguments);
}
