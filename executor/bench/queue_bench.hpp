// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <benchmark/benchmark.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <latch>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include <bwos/queue/steal.hpp>
#include "base/random.hpp"
#include "named_bench.hpp"

// What the benchmarks of queues do again and again.
//
// op_ns is the time of one operation of the owner (a put or a get). A memory clobber after each
// keeps the queue's state out of registers, as in a worker that runs tasks between two operations.
//
//   alone                fills and drains
//   pairs                puts and gets one entry above ten others, as fork-join does
//   thief/MAX/PERCENT    fills and drains beside a thief that takes so much of what is put at most,
//                        and so many entries at once
//   steals/NS            the same, but the thief takes one entry, and rests so long before the next
//   looks/NS             the same, but the thief only looks whether there is something

namespace bwos::bench {

using value = std::uintptr_t;
inline constexpr std::size_t capacity = 8192;

/// Puts until full; returns how many. Values begin at 1 as some queues say "none" by 0.
template <class Owner>
std::size_t fill(Owner& owner) {
  std::size_t puts = 0;
  for (value v = 1; owner.put(v); ++v) {
    ++puts;
    benchmark::ClobberMemory();
  }
  return puts;
}

/// Gets until empty; returns how many.
template <class Owner>
std::size_t drain(Owner& owner) {
  std::size_t gets = 0;
  for (value v = 0; owner.get(v);) {
    ++gets;
    benchmark::DoNotOptimize(v);
    benchmark::ClobberMemory();
  }
  return gets;
}

/// Returns the operations that succeeded.
template <class Owner>
std::size_t fill_and_drain(Owner& owner) {
  const std::size_t puts = fill(owner);
  return puts + drain(owner);
}

inline void report(benchmark::State& state, std::size_t operations) {
  state.SetItemsProcessed(static_cast<std::int64_t>(operations));
  state.counters["op_ns"] = ns_per(operations);
}

/// Every entry stolen is one get less: puts are (operations + stolen) / 2.
inline void report_stolen(benchmark::State& state, std::size_t operations, std::size_t stolen) {
  report(state, operations);
  state.counters["stolen_percent"] =
      200.0 * static_cast<double>(stolen) / static_cast<double>(operations + stolen);
}

/// A queue that has been filled and drained once. What came out, and in which order, is the answer:
/// queues of the same order and capacity come to the same.
template <class Queue>
std::unique_ptr<Queue> make_queue(benchmark::State& state) {
  auto queue = std::make_unique<Queue>();
  auto& owner = queue->as_owner();
  for (value v = 1; owner.put(v);) ++v;
  double answer = 0;
  double place = 1;
  for (value v = 0; owner.get(v); ++place) answer += place * static_cast<double>(v);
  state.counters["answer"] = answer;
  return queue;
}

template <class Queue>
void owner_alone(benchmark::State& state) {
  const auto queue = make_queue<Queue>(state);
  std::size_t operations = 0;
  for (auto _ : state) operations += fill_and_drain(queue->as_owner());
  report(state, operations);
}

template <class Queue>
void owner_in_pairs(benchmark::State& state) {
  const auto queue = make_queue<Queue>(state);
  auto& owner = queue->as_owner();
  for (value v = 1; v <= 10; ++v) owner.put(v);
  std::size_t operations = 0;
  for (auto _ : state) {
    for (value v = 1; v <= 1000; ++v) {
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

/// A thief of a queue of blocks, which chooses any that is in use.
template <class Thief>
class choosing_thief {
 public:
  explicit choosing_thief(Thief thief) : thief_(thief) {}
  bool sample() { return thief_.sample(choose()); }
  steal_result steal(value* out, std::size_t max) { return thief_.steal(choose(), out, max); }

 private:
  std::size_t choose() {
    const block_range range = thief_.in_use();
    return range[random_.below(static_cast<std::uint32_t>(range.count))];
  }

  Thief thief_;
  random_source random_{1};
};

template <class Queue>
decltype(auto) thief_of(Queue& queue) {
  if constexpr (requires { queue.as_thief().in_use(); }) {
    return choosing_thief(queue.as_thief());
  } else {
    return queue.as_thief();
  }
}

/// The owner fills and drains beside another thread, which does turn(thief, put, stolen) again and
/// again: the entries that were put until now, and those that it has stolen. It returns how many
/// more it has got.
template <class Queue, class Turn>
void owner_beside(benchmark::State& state, Turn turn) {
  const auto queue = make_queue<Queue>(state);
  auto& owner = queue->as_owner();
  std::atomic<std::size_t> put{0};  // written once a lap
  std::atomic<bool> done{false};
  std::latch both_run(2);
  std::size_t stolen = 0;
  std::thread robber([&] {
    auto&& thief = thief_of(*queue);
    both_run.arrive_and_wait();
    while (!done.load(std::memory_order_relaxed)) {
      stolen += turn(thief, put.load(std::memory_order_relaxed), stolen);
    }
  });
  std::size_t puts = 0;
  std::size_t gets = 0;
  both_run.arrive_and_wait();
  for (auto _ : state) {
    puts += fill(owner);
    gets += drain(owner);
    put.store(puts, std::memory_order_relaxed);
  }
  done.store(true, std::memory_order_relaxed);
  robber.join();
  report_stolen(state, puts + gets, stolen);
  if (puts != gets + drain(owner) + stolen) state.SkipWithError("not every entry was got once");
}

/// The thief takes `percent` of what is put at most: as much as there is, and then it waits until
/// the owner has put more.
template <class Queue>
void owner_beside_thief(benchmark::State& state, std::int64_t max, std::int64_t percent) {
  const std::size_t batch_max = std::min(static_cast<std::size_t>(max), Queue::block_entries);
  owner_beside<Queue>(state, [=](auto& thief, std::size_t put, std::size_t stolen) {
    value batch[Queue::block_entries];
    const bool may_steal = 100 * stolen <= static_cast<std::size_t>(percent) * put;
    return may_steal ? thief.steal(batch, batch_max).count : std::size_t{0};
  });
}

/// Says when a thief may go on that rests after each of its acts.
class rests {
  using clock = std::chrono::steady_clock;

 public:
  explicit rests(std::int64_t ns) : rest_(ns) {}
  bool are_over() const { return clock::now() >= end_; }
  void begin() { end_ = clock::now() + rest_; }

 private:
  std::chrono::nanoseconds rest_;
  clock::time_point end_{};
};

/// A thief that finds nothing, or is slower than the owner, tries again at once.
template <class Queue>
void owner_beside_steals(benchmark::State& state) {
  owner_beside<Queue>(state, [rest = rests(state.range(0))](auto& thief, auto, auto) mutable {
    value entry = 0;
    const std::size_t got = rest.are_over() ? thief.steal(&entry, 1).count : 0;
    if (got != 0) rest.begin();
    return got;
  });
}

template <class Queue>
void owner_beside_looks(benchmark::State& state) {
  owner_beside<Queue>(state, [rest = rests(state.range(0))](auto& thief, auto, auto) mutable {
    if (rest.are_over()) {
      benchmark::DoNotOptimize(thief.sample());
      rest.begin();
    }
    return std::size_t{0};
  });
}

/// All that there is to measure of a queue; of one without thieves, what its owner does alone.
template <class Queue>
void add(const std::string& name) {
  const auto under = [&](const char* what, auto* run) {
    return benchmark::RegisterBenchmark((name + what).c_str(), run);
  };
  under("/alone", &owner_alone<Queue>);
  under("/pairs", &owner_in_pairs<Queue>);
  if constexpr (requires(Queue& queue) { queue.as_thief(); }) {
    under(
        "/thief",
        +[](benchmark::State& state) {
          owner_beside_thief<Queue>(state, state.range(0), state.range(1));
        })
        ->ArgsProduct({{32}, {1, 5, 10, 20, 30}})
        ->ArgsProduct({{1, 4, 8, 16, 64}, {20}})
        ->UseRealTime();
    for (const std::int64_t ns : {100, 300, 1'000, 3'000, 10'000}) {
      under("/steals", &owner_beside_steals<Queue>)->Arg(ns)->UseRealTime();
      under("/looks", &owner_beside_looks<Queue>)->Arg(ns)->UseRealTime();
    }
  }
}

/// NAME/alone/WHAT/NUMBER and NAME/thief/WHAT/NUMBER, the latter beside one that takes a tenth.
template <class Queue>
void add_shape(const std::string& name, const std::string& what, std::size_t number) {
  const std::string shape = "/" + what + "/" + std::to_string(number);
  benchmark::RegisterBenchmark((name + "/alone" + shape).c_str(), &owner_alone<Queue>);
  benchmark::RegisterBenchmark((name + "/thief" + shape).c_str(), [](benchmark::State& state) {
    owner_beside_thief<Queue>(state, 32, 10);
  })->UseRealTime();
}

/// What the shape of a queue costs: `entries` a block, of 8,192 in all, and `blocks` of 64 entries.
template <template <std::size_t Entries, std::size_t Blocks> class Queue>
void add_shapes(const std::string& name) {
  const auto entries = [&]<std::size_t... Each>(std::index_sequence<Each...>) {
    (add_shape<Queue<Each, capacity / Each>>(name, "entries", Each), ...);
  };
  const auto blocks = [&]<std::size_t... Each>(std::index_sequence<Each...>) {
    (add_shape<Queue<64, Each>>(name, "blocks", Each), ...);
  };
  entries(std::index_sequence<1, 4, 8, 16, 32, 64, 256, 1024, 4096>());
  blocks(std::index_sequence<2, 4, 8, 16, 32, 128, 512>());
}

}  // namespace bwos::bench
