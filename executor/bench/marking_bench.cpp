// SPDX-License-Identifier: Apache-2.0
// Question: what does the queue cost a garbage collector that marks what is reachable, by the
// number of its threads? (Wang et al., OSDI '23, section 6.3.1: a LIFO queue in Java's G1.)
// Expected: a LIFO queue takes at most .95 of the time of Chase and Lev's deque with its fence.
//
// op_ns is the time of one object: a thread takes it from its queue, and marks and puts those it
// refers to that nobody has marked. All queues hold 8,192 entries; what does not fit, a thread
// keeps to itself until its queue is empty. A thread without work steals, a batch where the queue
// gives more than one entry, from one that it chooses at random.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <latch>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include <bwos/base/cache_line.hpp>
#include <bwos/queue/fork_queue.hpp>
#include <bwos/queue/lifo_queue.hpp>
#include "base/random.hpp"
#include "chase_lev_deque.hpp"
#include "named_bench.hpp"

namespace bwos::bench {
namespace {

/// Objects that refer to others, all of them reachable from the first one. Of 16,384 in a row, the
/// first 512 are a list and the next 1,536 belong to one array; each of the others belongs to one
/// that was made shortly before. Each refers to another one that was made shortly before it, too.
class heap {
 public:
  explicit heap(std::uint32_t objects) : begin_(objects + 1), marks_(objects) {
    for (std::uint32_t i = 1; i < objects; ++i) {
      ++begin_[holder(i)];
      ++begin_[i];
    }
    references_.resize(2 * std::size_t{objects - 1});
    std::uint32_t end = 0;
    for (std::uint32_t& each : begin_) each = end += each;
    for (std::uint32_t i = 1; i < objects; ++i) {
      references_[--begin_[holder(i)]] = i;
      references_[--begin_[i]] = made_shortly_before(i, 2);
    }
  }
  [[nodiscard]] std::size_t size() const { return marks_.size(); }
  [[nodiscard]] std::span<const std::uint32_t> references(std::uint32_t object) const {
    return std::span(references_).subspan(begin_[object], begin_[object + 1] - begin_[object]);
  }
  /// Whether nobody has marked it before.
  bool mark(std::uint32_t object) {
    return !marks_[object].load(std::memory_order_relaxed) &&
           !marks_[object].exchange(true, std::memory_order_relaxed);
  }
  void unmark_all() {
    for (std::atomic<bool>& each : marks_) each.store(false, std::memory_order_relaxed);
  }

 private:
  static std::uint32_t made_shortly_before(std::uint32_t object, std::uint64_t seed) {
    return object - 1 -
           random_source(seed << 32 | object).below(std::min(object, std::uint32_t{4096}));
  }
  /// Through which it is reachable.
  static std::uint32_t holder(std::uint32_t object) {
    const std::uint32_t place = object % 16'384;
    if (place != 0 && place < 512) return object - 1;
    if (place > 512 && place < 2048) return object - (place - 512);
    return made_shortly_before(object, 1);
  }

  std::vector<std::uint32_t> begin_;  // of each object's references
  std::vector<std::uint32_t> references_;
  std::vector<std::atomic<bool>> marks_;
};

/// Threads that mark a heap together, each with a queue of its own.
template <class Queue>
class marking {
 public:
  struct alignas(cache_line) worker {
    Queue queue;
    std::vector<std::uint32_t> overflow;
    std::size_t marked = 0;
    std::size_t stolen = 0;
  };

  marking(heap& of, unsigned workers) : heap_(of), workers_(workers) {
    heap_.mark(0);
    put(workers_[0], 0);
  }

  /// One thread's share: returns when nobody has anything left.
  void run(unsigned index) {
    worker& mine = workers_[index];
    random_source random(index);
    do {
      for (std::uint32_t object = 0; take(mine, object); ++mine.marked) {
        for (const std::uint32_t each : heap_.references(object)) {
          if (heap_.mark(each)) put(mine, each);
        }
      }
    } while (steal(mine, random));
  }
  [[nodiscard]] const std::vector<worker>& workers() const { return workers_; }

 private:
  static void put(worker& mine, std::uint32_t object) {
    if (!mine.queue.as_owner().put(object)) mine.overflow.push_back(object);
  }
  static bool take(worker& mine, std::uint32_t& object) {
    if (mine.queue.as_owner().get(object)) return true;
    if (mine.overflow.empty()) return false;
    object = mine.overflow.back();
    mine.overflow.pop_back();
    return true;
  }

  /// False: all are here. As who is here has an empty queue, and leaves before it takes something,
  /// nothing is left then.
  bool steal(worker& mine, random_source& random) {
    idle_.fetch_add(1);
    while (idle_.load() != workers_.size()) {
      worker& victim = workers_[random.below(static_cast<std::uint32_t>(workers_.size()))];
      if (&victim == &mine) continue;
      if (victim.queue.as_thief().sample()) {
        idle_.fetch_sub(1);
        if (steal_from(victim, mine)) return true;
        idle_.fetch_add(1);
      } else if constexpr (requires { victim.queue.as_thief().request(); }) {
        victim.queue.as_thief().request();
      }
      std::this_thread::yield();
    }
    return false;
  }
  static bool steal_from(worker& victim, worker& mine) {
    std::uint32_t batch[16];
    const std::size_t count = victim.queue.as_thief().steal(batch, std::size(batch)).count;
    for (const std::uint32_t each : std::span(batch, count)) put(mine, each);
    mine.stolen += count;
    return count != 0;
  }

  heap& heap_;
  std::vector<worker> workers_;
  alignas(cache_line) std::atomic<std::size_t> idle_{0};
};

heap& all_objects() {
  static heap objects(std::uint32_t{1} << (is_quick() ? 16 : 20));
  return objects;
}

/// Range: threads.
template <class Queue>
void mark(benchmark::State& state) {
  heap& objects = all_objects();
  const auto threads = static_cast<unsigned>(state.range(0));
  double cpu_s = 0;
  std::size_t marked = 0;
  std::size_t stolen = 0;
  for (auto _ : state) {
    objects.unmark_all();
    marking<Queue> work(objects, threads);
    std::latch ready(threads);
    std::vector<std::jthread> others;
    for (unsigned i = 1; i < threads; ++i) {
      others.emplace_back([&work, &ready, i] {
        ready.arrive_and_wait();
        work.run(i);
      });
    }
    ready.arrive_and_wait();
    const double cpu_before = cpu_seconds();
    const auto start = std::chrono::steady_clock::now();
    work.run(0);
    others.clear();
    const auto took = std::chrono::steady_clock::now() - start;
    state.SetIterationTime(std::chrono::duration<double>(took).count());
    cpu_s += cpu_seconds() - cpu_before;
    for (const auto& each : work.workers()) {
      marked += each.marked;
      stolen += each.stolen;
    }
  }
  const std::size_t all = objects.size() * static_cast<std::size_t>(state.iterations());
  if (marked != all) state.SkipWithError("not every object was marked once");
  state.counters["op_ns"] = ns_per(all);
  state.counters["op_cpu_ns"] = cpu_s * 1e9 / static_cast<double>(all);
  state.counters["stolen_percent"] = 100 * static_cast<double>(stolen) / static_cast<double>(all);
}

template <class Queue>
void add(const std::string& name) {
  benchmark::RegisterBenchmark((name + "/mark").c_str(), &mark<Queue>)
      ->ArgsProduct({{1, 2, 4, 8, 16}})
      ->UseManualTime()
      ->Unit(benchmark::kMillisecond);
}

}  // namespace
}  // namespace bwos::bench

int main(int count, char** arguments) {
  using namespace bwos;
  using namespace bwos::bench;
  add<lifo_queue<std::uint32_t, 1024, 8>>("lifo_8x1024");
  add<lifo_queue<std::uint32_t, 64, 128>>("lifo_128x64");
  add<fork_queue<std::uint32_t, 64, 128>>("fork_128x64");
  add<chase_lev_deque<std::uint32_t, 8192, false>>("chase_lev_fence");
  add<chase_lev_deque<std::uint32_t, 8192, true>>("chase_lev_exchange");
  return run_benchmarks(count, arguments);
}
