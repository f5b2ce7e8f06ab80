// SPDX-License-Identifier: Apache-2.0
// Question: what do the ways of stealing cost the thief, and do they cost the owner anything?
// Expected: an attempt takes tens of nanoseconds by random, sequential and last victim, and by
// topology; more by the best of two or many, which read lengths; most by samples of short queues,
// which miss. A worker whom nobody steals from pays the same whichever is chosen, as it runs the
// same instructions: refuted by an `owner` line that is above its neighbours in every repetition.
//
//   hit      one attempt that finds something: seven victims with 1 to 64 blocks open. What is
//            claimed stays there, so that lengths do: the claim itself is the same for all.
//   dry      one attempt that finds nothing in any of seven.
//   owner    a pool of one worker, ns a task of a chain of posts (put, share, get): what the side
//            of the owner pays for the policy that its pool was given.
//   robbed   the owner's ns an operation, while a thief on another core steals by that policy from
//            this queue and six that are empty.
//   pool     eight threads as in OSDI '23, section 6.2.3: each fills its queue, empties it, and
//            then steals a tenth of its capacity from the others. ns of all time for each
//            operation. Meant for machines that have eight cores; on fewer a thief finds queues of
//            threads that do not run.
#include <benchmark/benchmark.h>

#include <array>
#include <atomic>
#include <bwos/pool.hpp>
#include <cstddef>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <bwos/queue/fifo_queue.hpp>
#include "chain.hpp"
#include "queue_bench.hpp"
#include "steal/policy.hpp"

namespace bwos::bench {
namespace {

using queue = fifo_queue<value, 64, 128>;  // a worker's
constexpr unsigned workers = 8;
constexpr auto nobody_sleeps = [](unsigned) { return false; };

using many_queues = std::vector<std::unique_ptr<queue>>;
many_queues make_queues() {
  many_queues result;
  for (unsigned i = 0; i < workers; ++i) result.push_back(std::make_unique<queue>());
  return result;
}

/// Worker i on CPU i, as if each were pinned.
const worker_places& places() {
  static const worker_places result = [] {
    worker_places made(topology::read(), workers);
    for (unsigned i = 0; i < workers; ++i) made.put(i, i);
    return made;
  }();
  return result;
}

steal_policy policy_of(const options& settings, std::uint64_t seed = 1) {
  return {settings, seed, options::steal_batch_max, &places()};
}

/// What it takes stays.
struct taking_nothing {
  queue::thief of;
  [[nodiscard]] block_range in_use() const noexcept { return of.in_use(); }
  [[nodiscard]] std::size_t open_entries(std::size_t block) const noexcept {
    return of.open_entries(block);
  }
  steal_result steal(std::size_t, value*, std::size_t max) const noexcept {
    return {max, steal_status::ok};
  }
};

void attempts(benchmark::State& state, const options& settings, bool dry) {
  const many_queues queues = make_queues();
  for (unsigned i = 1; i < workers && !dry; ++i) {
    for (value v = 0; v < 64 * ((1U << (i - 1)) + 1); ++v) queues[i]->as_owner().put(v);
  }
  steal_policy policy = policy_of(settings);
  std::array<value, options::steal_batch_max> out{};
  std::size_t taken = 0;
  for (auto _ : state) {
    const steal_outcome outcome = policy.steal(
        0, workers, nobody_sleeps,
        [&](unsigned i) { return taking_nothing{queues[i]->as_thief()}; }, out.data());
    taken += outcome.taken() ? 1 : 0;
  }
  state.counters["op_ns"] = ns_per(static_cast<std::size_t>(state.iterations()));
  state.counters["taken_%"] =
      100 * static_cast<double>(taken) / static_cast<double>(state.iterations());
}

void owner_of_a_pool(benchmark::State& state, options settings) {
  constexpr std::size_t tasks = 200'000;
  settings.workers = 1;
  for (auto _ : state) {
    pool one(settings);
    chain work(one, tasks);
    one.post(work);
    one.join();
  }
  report(state, tasks * static_cast<std::size_t>(state.iterations()));
}

void owner_with_thief(benchmark::State& state, const options& settings) {
  const many_queues queues = make_queues();
  auto& owner = queues[1]->as_owner();
  std::atomic<bool> done{false};
  std::size_t stolen = 0;
  std::thread robber([&] {
    steal_policy policy = policy_of(settings);
    std::array<value, options::steal_batch_max> out{};
    while (!done.load(std::memory_order_relaxed)) {
      stolen += policy
                    .steal(
                        0, workers, nobody_sleeps,
                        [&](unsigned i) { return queues[i]->as_thief(); }, out.data())
                    .count;
    }
  });
  std::size_t operations = 0;
  for (auto _ : state) operations += fill_and_drain(owner);
  done.store(true, std::memory_order_relaxed);
  robber.join();
  report_stolen(state, operations, stolen);
}

/// The operations of one thread in one lap.
std::size_t lap(const many_queues& queues, unsigned self, steal_policy& policy) {
  std::size_t operations = fill_and_drain(queues[self]->as_owner());
  std::array<value, options::steal_batch_max> out{};
  std::size_t stolen = 0;
  // Gives up, as others may have nothing for as long as it looks.
  for (unsigned tries = 0; stolen < queue::capacity / 10 && tries < queue::capacity / 10; ++tries) {
    stolen += policy
                  .steal(
                      self, workers, nobody_sleeps,
                      [&](unsigned i) { return queues[i]->as_thief(); }, out.data())
                  .count;
  }
  return operations + stolen;
}

void eight_threads(benchmark::State& state, const options& settings) {
  constexpr unsigned laps = 10;
  const many_queues queues = make_queues();
  std::size_t operations = 0;
  for (auto _ : state) {
    std::array<std::size_t, workers> done{};
    std::vector<std::thread> threads;
    for (unsigned self = 0; self < workers; ++self) {
      threads.emplace_back([&, self] {
        steal_policy policy = policy_of(settings, self);
        std::size_t mine = 0;
        for (unsigned i = 0; i < laps; ++i) mine += lap(queues, self, policy);
        done.at(self) = mine;
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (const std::size_t each : done) operations += each;
  }
  report(state, operations);
}

void register_all() {
  for (const steal_kind kind :
       {steal_kind::random, steal_kind::sequential, steal_kind::last_victim,
        steal_kind::best_of_two, steal_kind::best_of_many, steal_kind::topology}) {
    for (const steal_choice choice : {steal_choice::in_use, steal_choice::probabilistic}) {
      options settings;
      settings.steal = kind;
      settings.steal_blocks = choice;
      const std::string name = std::string(name_of(kind)) + "/" + name_of(choice);
      const auto add = [&](const char* what, auto run) {
        return benchmark::RegisterBenchmark((name + what).c_str(), run);
      };
      add("/hit", [=](benchmark::State& state) { attempts(state, settings, false); });
      add("/dry", [=](benchmark::State& state) { attempts(state, settings, true); });
      add("/owner", [=](benchmark::State& state) {
        owner_of_a_pool(state, settings);
      })->UseRealTime();
      add("/robbed", [=](benchmark::State& state) {
        owner_with_thief(state, settings);
      })->UseRealTime();
      add("/pool", [=](benchmark::State& state) { eight_threads(state, settings); })->UseRealTime();
    }
  }
  for (const steal_amount amount :
       {steal_amount::batch, steal_amount::one, steal_amount::half, steal_amount::block}) {
    options settings;
    settings.steal_takes = amount;
    benchmark::RegisterBenchmark(
        (std::string("by_") + name_of(amount) + "/robbed").c_str(),
        [=](benchmark::State& state) { owner_with_thief(state, settings); })
        ->UseRealTime();
  }
  options alone;
  alone.steal = steal_kind::none;
  benchmark::RegisterBenchmark("none/owner", [=](benchmark::State& state) {
    owner_of_a_pool(state, alone);
  })->UseRealTime();
}

}  // namespace
}  // namespace bwos::bench

int main(int argc, char** argv) {
  bwos::bench::register_all();
  return bwos::bench::run_benchmarks(argc, argv);
}
