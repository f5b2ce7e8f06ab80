// SPDX-License-Identifier: Apache-2.0
#include <tbb/global_control.h>
#include <tbb/task_arena.h>
#include <tbb/task_group.h>
#include <tbb/task_scheduler_observer.h>

#include "latency.hpp"
#include "side.hpp"

namespace bwos::bench {
namespace {

double leaves() {
  const nanoseconds begun = now();
  tbb::task_group group;
  for (int i = 0; i < leaf_count; ++i) group.run([] { spin_for(leaf_length); });
  group.wait();
  return us_since(begun);
}

double burst() {
  const nanoseconds begun = now();
  tbb::task_group group;
  for (int i = 0; i < burst_count; ++i) {
    group.run([i] { compute(static_cast<std::uint64_t>(i), burst_rounds); });
  }
  group.wait();
  return us_since(begun);
}

/// As workers of the pool are that has options::pin.
class pinning final : public tbb::task_scheduler_observer {
 public:
  explicit pinning(tbb::task_arena& where) : task_scheduler_observer(where) { observe(true); }
  void on_scheduler_entry(bool /*is_worker*/) override {
    pin_here(static_cast<unsigned>(tbb::this_task_arena::current_thread_index()));
  }
};

}  // namespace

std::vector<flavour> start_side(unsigned workers) {
  static const tbb::global_control limit(tbb::global_control::max_allowed_parallelism, workers);
  static tbb::task_arena arena(static_cast<int>(workers));
  static const pinning pinned(arena);
  const auto once_asleep = [](double (*work)()) {
    sleep_for_time(burst_pause);
    return arena.execute(work);
  };
  return {{"task_group",
           {},
           {{"leaves",
             [=](std::size_t n) { return take_samples(n, [=] { return once_asleep(&leaves); }); }},
            {"burst", [=](std::size_t n) {
               return take_samples(n, [=] { return once_asleep(&burst); });
             }}}}};
}

}  // namespace bwos::bench
