// SPDX-License-Identifier: Apache-2.0
// Measures on this machine what a simulation needs to know (costs.hpp), and prints it as a file of
// costs. What needs a machine of several caches or nodes is not measured but copied from the
// command line.
#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bwos/base/asymmetric_fence.hpp>
#include <bwos/pool.hpp>
#include <bwos/sync_wait.hpp>
#include <bwos/task_group.hpp>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <thread>
#include <vector>

#include "base/system_call.hpp"
#include "base/ticks.hpp"
#include "chain.hpp"
#include "measure.hpp"
#include "scheduler/worker_queue.hpp"

namespace bwos::simulation {
namespace {

using steady = std::chrono::steady_clock;

double ns_since(steady::time_point began) {
  return std::chrono::duration<double, std::nano>(steady::now() - began).count();
}

/// The lower quartile, as others on this machine can only make it longer.
void print(const char* name, const std::vector<double>& samples, const char* meaning) {
  std::printf("%s = %.3g  # %s; of %zu the least %.3g, median %.3g, upper quartile %.3g\n", name,
              bench::quantile(samples, 0.25), meaning, samples.size(), bench::quantile(samples, 0),
              bench::quantile(samples, 0.5), bench::quantile(samples, 0.75));
}

/// ns of each of `times` calls of `what`, again and again.
template <class What>
std::vector<double> time_of(unsigned times, const What& what) {
  std::vector<double> result;
  for (unsigned i = 0; i < 200; ++i) {
    const auto began = steady::now();
    for (unsigned j = 0; j < times; ++j) what();
    result.push_back(ns_since(began) / times);
  }
  return result;
}

/// What `all` have more than a typical one of `base`.
std::vector<double> beyond(const std::vector<double>& base, std::vector<double> all) {
  for (double& each : all) each = std::max(0.0, each - bench::quantile(base, 0.5));
  return all;
}

/// ns of each turn of two CPUs that raise a number in turn. A turn moves its line twice: to the one
/// that waits for it, and for the store back.
std::vector<double> turns_of() {
  constexpr unsigned turns = 100;
  constexpr unsigned samples = 5'000;
  alignas(64) std::atomic<unsigned> word{0};
  const auto play = [&word](unsigned parity, unsigned until) {
    while (true) {  // ends: the other one raises it as well
      const unsigned seen = word.load(std::memory_order_acquire);
      if (seen >= until) return;
      if (seen % 2 == parity) word.store(seen + 1, std::memory_order_release);
    }
  };
  std::thread partner([&] {
    bench::pin_here(1);
    play(1, turns * samples);
  });
  bench::pin_here(0);
  std::vector<double> result;
  for (unsigned i = 1; i <= samples; ++i) {
    const auto began = steady::now();
    play(0, turns * i);
    result.push_back(ns_since(began) / turns);
  }
  partner.join();
  return result;
}

/// A sleeper that is woken: what that takes the one that wakes, and when it runs.
void measure_wake(const std::vector<double>& system_call) {
  std::uint32_t word = 0;
  std::atomic<bool> ends{false};
  std::atomic<std::int64_t> ran_at{0};
  const auto now = [] { return steady::now().time_since_epoch().count(); };
  std::thread sleeper([&] {
    bench::pin_here(1);
    while (!ends) {
      system_call::futex_wait(&word, 0, -1);
      ran_at = now();
    }
  });
  bench::pin_here(0);
  std::vector<double> wake;
  std::vector<double> until;
  for (int i = 0; i < 2'000; ++i) {
    std::this_thread::sleep_for(std::chrono::microseconds(100));
    ran_at = 0;
    const std::int64_t began = now();
    system_call::futex_wake_one(&word);
    wake.push_back(static_cast<double>(now() - began));
    const auto given_up = steady::now() + std::chrono::milliseconds(5);
    while (ran_at == 0 && steady::now() < given_up) continue;
    if (ran_at != 0) until.push_back(static_cast<double>(ran_at - began));
  }
  ends = true;
  __atomic_store_n(&word, 1U, __ATOMIC_SEQ_CST);
  system_call::futex_wake_one(&word);
  sleeper.join();
  print("wake", beyond(system_call, wake), "futex_wake() of a sleeper, beyond one of nobody");
  print("wake_up", until, "from there until it runs");
}

/// While another thread of the process runs.
void measure_membarrier() {
  if (!asymmetric_fence::available()) return;
  std::atomic<bool> ends{false};
  std::thread busy([&] {
    bench::pin_here(1);
    while (!ends.load(std::memory_order_relaxed)) continue;
  });
  bench::pin_here(0);
  print("membarrier", time_of(10, &asymmetric_fence::heavy), "the heavy half of a fence");
  ends = true;
  busy.join();
}

/// ns a task.
std::vector<double> chains() {
  std::vector<double> result;
  for (int i = 0; i < 50; ++i) {
    constexpr std::size_t tasks = 1'000'000;
    pool alone({.workers = 1});
    bench::chain work(alone, tasks);
    const auto began = steady::now();
    alone.post(work);
    alone.join();
    result.push_back(ns_since(began) / tasks);
  }
  return result;
}

std::uint64_t fib(unsigned n) {
  if (n < 2) return n;
  std::uint64_t a = 0;
  std::uint64_t b = 0;
  invoke([&] { a = fib(n - 1); }, [&] { b = fib(n - 2); });
  return a + b;
}

/// ns a call.
std::vector<double> fibs() {
  constexpr double calls = 150'049;  // of fib(24)
  pool alone({.workers = 1});
  std::vector<double> result;
  for (int i = 0; i < 50; ++i) {
    const double ns = sync_wait(alone, [] {
      const auto began = steady::now();
      [[maybe_unused]] const volatile std::uint64_t sum = fib(24);
      return ns_since(began);
    });
    result.push_back(ns / calls);
  }
  return result;
}

}  // namespace
}  // namespace bwos::simulation

int main(int count, char** arguments) {
  using namespace bwos::simulation;
  using namespace bwos;
  if (count != 5) {
    std::fprintf(
        stderr,
        "usage: %s FAR REMOTE CACHE_CPUS NODE_CPUS\n"
        "prints the costs of this machine (costs.hpp); what it cannot measure it is told\n",
        arguments[0]);
    return 2;
  }
  if (bench::processors().size() < 2) {
    std::fprintf(stderr, "%s: two CPUs are needed, and this process has one\n", arguments[0]);
    return 1;
  }
  bench::pin_here(0);

  const auto queue = std::make_unique<worker_queue>();
  auto& owner = queue->as_owner();
  continuation* next = nullptr;
  const auto put_and_get = [&] {
    static_cast<void>(owner.put(next));
    static_cast<void>(owner.get(next));
    asm volatile("" ::: "memory");
  };
  print("pair", time_of(10'000, put_and_get),
        "a put and a get of the FIFO queue by its owner alone");

  std::atomic<unsigned> word{0};
  const auto load = [&] { static_cast<void>(word.load(std::memory_order_acquire)); };
  const auto change = [&] { word.fetch_add(1, std::memory_order_acq_rel); };
  print("locked", beyond(time_of(10'000, load), time_of(10'000, change)),
        "a read-modify-write, beyond a load");
  print("clock", time_of(10'000, [] { static_cast<void>(now_ticks()); }), "a look at the clock");

  std::uint32_t nobody = 0;
  const auto wake_nobody = [&] { system_call::futex_wake_one(&nobody); };
  const std::vector<double> system_call = time_of(1'000, wake_nobody);
  print("system_call", system_call, "futex_wake() of nobody");
  const int set = ::epoll_create1(EPOLL_CLOEXEC);
  std::array<epoll_event, 64> ready{};
  const auto poll = [&] { static_cast<void>(::epoll_wait(set, ready.data(), 64, 0)); };
  print("poll", time_of(1'000, poll), "epoll_wait() that finds nothing");
  ::close(set);

  std::vector<double> away = turns_of();
  for (double& each : away) each /= 2;
  print("away", away, "half of a turn of two CPUs that raise a number");
  measure_wake(system_call);
  measure_membarrier();
  std::fflush(stdout);

  print("chain", chains(), "a task that posts the next one, on a pool of one worker");
  print("fib", fibs(), "a call of fib(24) by invoke(), on a pool of one worker");
  std::printf("far = %s\nremote = %s\ncache_cpus = %s\nnode_cpus = %s\n", arguments[1],
              arguments[2], arguments[3], arguments[4]);
  return 0;
}
