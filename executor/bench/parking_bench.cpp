// SPDX-License-Identifier: Apache-2.0
// Question: what does a post into an idle pool cost, in CPU of the whole process and in the time
// until its poster has the answer, with 2, 64 and 256 workers?
// Expected: the same CPU whatever the number of workers, as one sleeper is woken, finds the task,
// sees that there is no more and sleeps again. Refuted where the ratio to the pool of 2 is not
// within 20 % of 1: then whoever is woken looks through others, or wakes them.
//
// Each post is awaited by its poster, which blocks on a condition variable, and the next comes a
// millisecond later, when all workers sleep again: on futexes, or in epoll sets of 8 workers each.
// The CPU that as many naps of a millisecond cost without a pool is taken off.
#include <benchmark/benchmark.h>

#include <bwos/options.hpp>
#include <chrono>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "named_bench.hpp"
#include "native_question.hpp"

namespace bwos::bench {
namespace {

constexpr std::chrono::milliseconds pause{1};
const int posts = is_quick() ? 20 : 1'000;

double naps_cpu_seconds() {
  const double before = cpu_seconds();
  for (int i = 0; i < posts; ++i) std::this_thread::sleep_for(pause);
  return cpu_seconds() - before;
}

void ask_idle_pool(benchmark::State& state, unsigned workers, reactor_kind reactor) {
  const double naps_cpu_s = naps_cpu_seconds();
  options how;
  how.workers = workers;
  how.reactor = reactor;
  native_question question(how);
  const auto ask = [&] {
    std::this_thread::sleep_for(pause);
    const auto start = steady::now();
    question.ask();
    question.reply.take();
    return std::chrono::duration<double>(steady::now() - start).count();
  };
  for (int i = 0; i < posts / 10; ++i) ask();  // all workers have started, and slept
  question.until_parked();
  std::vector<double> us;
  const double cpu_before = cpu_seconds();
  for (auto _ : state) {
    const double taken = ask();
    us.push_back(taken * 1e6);
    state.SetIterationTime(taken);
  }
  const double cpu_s = cpu_seconds() - cpu_before - naps_cpu_s;
  state.counters["op_ns"] = quantile(us, 0.5) * 1e3;
  state.counters["op_cpu_ns"] = cpu_s * 1e9 / posts;
  state.counters["p50_us"] = quantile(us, 0.5);
  state.counters["p99_us"] = quantile(us, 0.99);
}

}  // namespace
}  // namespace bwos::bench

int main(int count, char** arguments) {
  using namespace bwos::bench;
  for (const unsigned workers : {2U, 64U, 256U}) {
    for (const auto& [name, reactor] :
         {std::pair{"none", bwos::reactor_kind::none}, {"epoll", bwos::reactor_kind::epoll}}) {
      benchmark::RegisterBenchmark((std::to_string(workers) + "/" + name).c_str(), &ask_idle_pool,
                                   workers, reactor)
          ->UseManualTime()
          ->Iterations(posts)
          ->Unit(benchmark::kMicrosecond);
    }
  }
  return run_benchmarks(count, arguments);
}
