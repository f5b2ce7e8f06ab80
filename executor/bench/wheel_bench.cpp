// SPDX-License-Identifier: Apache-2.0
// Question: what do deadlines cost a worker?
// Expected: arming and disarming a few nanoseconds each, whatever the number of armed entries, and
// a look at the wheel when nothing is due under 20 ns. Refuted by a cost that grows with the number
// of armed entries beyond what their cache misses explain.
//
// Peer: the standard library's ordered set of (deadline, entry), which allocates a node an insert.
#include <benchmark/benchmark.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "base/random.hpp"
#include "io/timer/wheel.hpp"

namespace {

using bwos::timer_entry;
using bwos::wheel;

constexpr std::int64_t start_ms = 1'234'567;

struct passive : timer_entry {
  passive() noexcept : timer_entry([](timer_entry&) noexcept {}) {}
};

/// A connection's deadline: re-arms itself when due.
struct periodic : timer_entry {
  periodic() noexcept
      : timer_entry([](timer_entry& self) noexcept {
          auto& me = static_cast<periodic&>(self);
          me.at->insert(me, me.due_ms + me.period_ms);
        }) {}
  wheel* at = nullptr;
  std::int64_t period_ms = 0;
};

std::int64_t random_due(bwos::random_source& random) {
  return start_ms + 1 + random.below(60'000);
}

void wheel_insert_and_erase(benchmark::State& state) {
  const auto armed = static_cast<std::size_t>(state.range(0));
  bwos::random_source random(1);
  wheel timers(start_ms);
  std::vector<passive> entries(armed);
  for (passive& entry : entries) timers.insert(entry, random_due(random));
  passive extra;
  for (auto _ : state) {
    timers.insert(extra, random_due(random));
    timers.erase(extra);
    benchmark::ClobberMemory();
  }
  timers.drain([](timer_entry&) {});
}
BENCHMARK(wheel_insert_and_erase)->Arg(0)->Arg(1000)->Arg(100'000);

void set_insert_and_erase(benchmark::State& state) {
  const auto armed = static_cast<std::size_t>(state.range(0));
  bwos::random_source random(1);
  std::set<std::pair<std::int64_t, const void*>> timers;
  std::vector<passive> entries(armed);
  for (passive& entry : entries) timers.emplace(random_due(random), &entry);
  passive extra;
  for (auto _ : state) {
    timers.erase(timers.emplace(random_due(random), &extra).first);
    benchmark::ClobberMemory();
  }
}
BENCHMARK(set_insert_and_erase)->Arg(0)->Arg(1000)->Arg(100'000);

/// Time per deadline that fires and is armed again, sorting into lower levels included.
void wheel_re_arm(benchmark::State& state) {
  const auto armed = static_cast<std::size_t>(state.range(0));
  bwos::random_source random(1);
  wheel timers(start_ms);
  std::vector<periodic> entries(armed);
  for (periodic& entry : entries) {
    entry.at = &timers;
    entry.period_ms = 1 + random.below(10'000);
    timers.insert(entry, start_ms + entry.period_ms);
  }
  std::int64_t now = start_ms;
  std::int64_t fired = 0;
  for (auto _ : state) fired += static_cast<std::int64_t>(timers.advance(++now));
  state.SetItemsProcessed(fired);
  timers.drain([](timer_entry&) {});
}
BENCHMARK(wheel_re_arm)->Arg(1000)->Arg(100'000);

/// What every turn of a worker pays: nothing is due.
void wheel_advance_within_a_tick(benchmark::State& state) {
  wheel timers(start_ms);
  passive entry;
  timers.insert(entry, start_ms + 30'000);
  timers.advance(start_ms);
  for (auto _ : state) {
    benchmark::DoNotOptimize(timers.advance(start_ms));
    benchmark::DoNotOptimize(timers.next_due(start_ms));
    benchmark::ClobberMemory();
  }
  timers.erase(entry);
}
BENCHMARK(wheel_advance_within_a_tick);

}  // namespace

BENCHMARK_MAIN();
