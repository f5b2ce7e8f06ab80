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
#include "named_bench.hpp"

namespace bwos::bench {
namespace {

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

std::int64_t random_due(random_source& random) {
  return start_ms + 1 + random.below(60'000);
}

void report_pairs(benchmark::State& state) {
  state.counters["op_ns"] = ns_per(2 * static_cast<std::size_t>(state.iterations()));
}

/// An entry more is armed and disarmed, two operations.
void arm_in_wheel(benchmark::State& state) {
  const auto armed = static_cast<std::size_t>(state.range(0));
  random_source random(1);
  wheel timers(start_ms);
  std::vector<passive> entries(armed);
  for (passive& entry : entries) timers.insert(entry, random_due(random));
  passive extra;
  for (auto _ : state) {
    timers.insert(extra, random_due(random));
    timers.erase(extra);
    benchmark::ClobberMemory();
  }
  report_pairs(state);
  timers.drain([](timer_entry&) {});
}

void arm_in_set(benchmark::State& state) {
  const auto armed = static_cast<std::size_t>(state.range(0));
  random_source random(1);
  std::set<std::pair<std::int64_t, const void*>> timers;
  std::vector<passive> entries(armed);
  for (passive& entry : entries) timers.emplace(random_due(random), &entry);
  passive extra;
  for (auto _ : state) {
    timers.erase(timers.emplace(random_due(random), &extra).first);
    benchmark::ClobberMemory();
  }
  report_pairs(state);
}

/// Time per deadline that fires and is armed again, sorting into lower levels included.
void fire(benchmark::State& state) {
  const auto armed = static_cast<std::size_t>(state.range(0));
  random_source random(1);
  wheel timers(start_ms);
  std::vector<periodic> entries(armed);
  for (periodic& entry : entries) {
    entry.at = &timers;
    entry.period_ms = 1 + random.below(10'000);
    timers.insert(entry, start_ms + entry.period_ms);
  }
  std::int64_t now = start_ms;
  std::size_t fired = 0;
  for (auto _ : state) fired += timers.advance(++now);
  state.counters["op_ns"] = ns_per(fired);
  timers.drain([](timer_entry&) {});
}

/// What every turn of a worker pays: nothing is due.
void look(benchmark::State& state) {
  wheel timers(start_ms);
  passive entry;
  timers.insert(entry, start_ms + 30'000);
  timers.advance(start_ms);
  for (auto _ : state) {
    benchmark::DoNotOptimize(timers.advance(start_ms));
    benchmark::DoNotOptimize(timers.next_due(start_ms));
    benchmark::ClobberMemory();
  }
  state.counters["op_ns"] = ns_per(static_cast<std::size_t>(state.iterations()));
  timers.erase(entry);
}

}  // namespace
}  // namespace bwos::bench

int main(int count, char** arguments) {
  using namespace bwos::bench;
  for (const std::int64_t armed : {1, 1'000, 100'000}) {
    benchmark::RegisterBenchmark("wheel/arm", &arm_in_wheel)->Arg(armed);
    benchmark::RegisterBenchmark("set/arm", &arm_in_set)->Arg(armed);
  }
  for (const std::int64_t armed : {1'000, 100'000}) {
    benchmark::RegisterBenchmark("wheel/fire", &fire)->Arg(armed);
  }
  benchmark::RegisterBenchmark("wheel/look", &look);
  return run_benchmarks(count, arguments);
}
