// SPDX-License-Identifier: Apache-2.0
// Question: what does it cost to post a task and have it run, on 2 workers, natively (continuations
// that exist already), by asio::post on bwos::thread_pool, and by asio::post on asio::thread_pool?
// Expected, against the last: native 6 times as fast in a tree of tasks that post two each, 2.5
// times in a chain; asio::post on ours 4 times in the tree; both twice from outside; a round trip
// to a parked pool no slower. `run.py post` runs this in rounds, and says which of these is
// refuted.
//
// Time per item is time per task, from the first post until join() has returned; making the pool is
// left out. In `tree` the queue grows to half of all tasks, far above what a worker's own queue
// holds; in `comb` every second task posts a leaf and its own successor, so that it stays short.
// In `fan` a task posts 64, the last of which to end posts the next one; `burst` are 1,000 tasks of
// a microsecond into a pool that sleeps. `round_trip` is from one post until its poster, blocked on
// a condition variable, runs again.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <atomic>
#include <bwos/asio.hpp>
#include <bwos/continuation.hpp>
#include <bwos/pool.hpp>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <type_traits>

#include "named_bench.hpp"

namespace {

using steady = std::chrono::steady_clock;
constexpr unsigned workers = 2;

std::size_t tasks = std::size_t{1} << 20;       // NOLINT: set once, where it is to be quick
benchmark::IterationCount round_trips = 1'000;  // NOLINT

/// Tasks run, counted without sharing: each thread adds its own when it ends, before join()
/// returns.
std::atomic<std::size_t> total_ran{0};
class ran_here {
 public:
  static void count() { ++mine().tasks_; }
  ~ran_here() { total_ran += tasks_; }

 private:
  static ran_here& mine() {
    static thread_local ran_here counter;
    return counter;
  }
  std::size_t tasks_ = 0;
};

/// What a task posts: the tasks [first, last) of those that are left to post.
struct successors {
  std::size_t first;
  std::size_t last;
};
/// Of what a case consists.
struct shape {
  static std::size_t count() { return tasks; }  ///< Tasks in all.
  static std::size_t from_outside() {
    return 1;
  }  ///< The first so many are posted by the thread outside.
  static constexpr bool into_sleepers = false;  ///< Once the pool's workers sleep.
  static void begin() {}
  static void work() {}
};
struct tree_shape : shape {
  static successors of(std::size_t task) { return {2 * task + 1, std::min(2 * task + 3, tasks)}; }
};
struct comb_shape : shape {
  static successors of(std::size_t task) {
    if (task % 2 == 1) return {0, 0};
    return {task + 1, std::min(task + 3, tasks)};
  }
};
struct chain_shape : shape {
  static successors of(std::size_t task) { return {task + 1, std::min(task + 2, tasks)}; }
};
struct flat_shape : shape {
  static std::size_t from_outside() { return tasks; }
  static successors of(std::size_t /*task*/) { return {0, 0}; }
};
/// A task posts 64, the last of which to end posts the next one.
struct fan_shape : shape {
  static constexpr std::size_t width = 64;
  static std::size_t rounds() { return tasks / (width + 1); }
  static std::size_t count() { return rounds() * (width + 1); }
  static void begin() { ended = std::make_unique<std::atomic<std::size_t>[]>(rounds()); }
  static successors of(std::size_t task) {
    const std::size_t round = task / (width + 1);
    if (task % (width + 1) == 0) return {task + 1, task + 1 + width};
    if (ended[round].fetch_add(1) + 1 < width || round + 1 == rounds()) return {0, 0};
    return {(round + 1) * (width + 1), (round + 1) * (width + 1) + 1};
  }
  static inline std::unique_ptr<std::atomic<std::size_t>[]> ended;
};
/// 1,000 tasks of a microsecond, posted by the thread outside.
struct burst_shape : flat_shape {
  static std::size_t count() { return 1'000; }
  static std::size_t from_outside() { return 1'000; }
  static constexpr bool into_sleepers = true;
  static void work() {
    const auto until = steady::now() + std::chrono::microseconds(1);
    while (steady::now() < until) {
    }
  }
};

template <class Shape>
class native_side {
  struct task : bwos::continuation {
    task() noexcept : continuation(&run) {}
    native_side* side = nullptr;
  };

 public:
  native_side() : pool_({.workers = workers}), tasks_(std::make_unique<task[]>(Shape::count())) {
    for (std::size_t i = 0; i < Shape::count(); ++i) tasks_[i].side = this;
  }
  void post(std::size_t index) noexcept { pool_.post(tasks_[index]); }
  void join() { pool_.join(); }

 private:
  static void run(bwos::continuation& self, bwos::continuation::disposition) noexcept {
    auto& mine = static_cast<task&>(self);
    native_side& side = *mine.side;
    ran_here::count();
    Shape::work();
    const auto [first, last] = Shape::of(static_cast<std::size_t>(&mine - side.tasks_.get()));
    for (std::size_t i = first; i < last; ++i) side.post(i);
  }

  bwos::pool pool_;
  std::unique_ptr<task[]> tasks_;
};

template <class Pool, class Shape>
class asio_side {
 public:
  void post(std::size_t index) {
    asio::post(pool_.get_executor(), [this, index] {
      ran_here::count();
      Shape::work();
      const auto [first, last] = Shape::of(index);
      for (std::size_t i = first; i < last; ++i) post(i);
    });
  }
  void join() { pool_.join(); }

 private:
  Pool pool_{workers};
};

template <class Side, class Shape>
void post_and_run(benchmark::State& state) {
  double cpu_s = 0;
  for (auto _ : state) {
    Shape::begin();
    Side side;
    if (Shape::into_sleepers) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    const double cpu_before = bwos::bench::cpu_seconds();
    const auto start = steady::now();
    for (std::size_t i = 0; i < Shape::from_outside(); ++i) side.post(i);
    side.join();
    state.SetIterationTime(std::chrono::duration<double>(steady::now() - start).count());
    cpu_s += bwos::bench::cpu_seconds() - cpu_before;
    if (total_ran.exchange(0) != Shape::count()) {
      state.SkipWithError("a task was lost or ran twice");
    }
  }
  const std::size_t all = static_cast<std::size_t>(state.iterations()) * Shape::count();
  state.counters["op_ns"] = bwos::bench::ns_per(all);
  state.counters["op_cpu_ns"] = cpu_s * 1e9 / static_cast<double>(all);
}

/// Where the thread outside waits, the same way on every side.
class answer {
 public:
  void give() {
    const std::lock_guard guard(lock_);
    given_ = true;
    changed_.notify_one();
  }
  void take() {
    std::unique_lock guard(lock_);
    changed_.wait(guard, [this] { return given_; });
    given_ = false;
  }

 private:
  std::mutex lock_;
  std::condition_variable changed_;
  bool given_ = false;
};

class native_question : bwos::continuation {
 public:
  native_question() : continuation(&run), pool_({.workers = workers}) {}
  void ask() { pool_.post(*this); }
  void until_parked() {
    while (pool_.statistics().parked != workers) std::this_thread::yield();
  }
  answer reply;

 private:
  static void run(bwos::continuation& self, disposition) noexcept {
    static_cast<native_question&>(self).reply.give();
  }
  bwos::pool pool_;
};

template <class Pool>
class asio_question {
 public:
  ~asio_question() { pool_.join(); }
  void ask() {
    asio::post(pool_, [this] { reply.give(); });
  }
  void until_parked() {
    if constexpr (std::is_same_v<Pool, bwos::thread_pool>) {
      while (pool_.native().statistics().parked != workers) std::this_thread::yield();
    }
  }
  answer reply;

 private:
  Pool pool_{workers};
};

template <class Question>
void round_trip(benchmark::State& state) {
  Question question;
  for (auto _ : state) {
    // Asio's pool does not say when it sleeps; this is ten times what it takes.
    std::this_thread::sleep_for(std::chrono::microseconds(200));
    question.until_parked();
    const auto start = steady::now();
    question.ask();
    question.reply.take();
    state.SetIterationTime(std::chrono::duration<double>(steady::now() - start).count());
  }
  state.counters["op_ns"] = bwos::bench::ns_per(static_cast<std::size_t>(state.iterations()));
}

template <class Shape>
void register_case(const std::string& name, benchmark::IterationCount iterations = 3) {
  const auto add = [&](const char* side, void (*function)(benchmark::State&)) {
    benchmark::RegisterBenchmark((side + ("/" + name)).c_str(), function)
        ->UseManualTime()
        ->Iterations(iterations)
        ->Unit(benchmark::kMillisecond);
  };
  using on_asio = asio_side<asio::thread_pool, Shape>;
  using on_ours = asio_side<bwos::thread_pool, Shape>;
  add("asio", post_and_run<on_asio, Shape>);
  add("asio_on_bwos", post_and_run<on_ours, Shape>);
  add("native", post_and_run<native_side<Shape>, Shape>);
}

void register_round_trip() {
  const auto add = [](const char* side, void (*function)(benchmark::State&)) {
    benchmark::RegisterBenchmark((std::string(side) + "/round_trip").c_str(), function)
        ->UseManualTime()
        ->Iterations(round_trips)
        ->Unit(benchmark::kMicrosecond);
  };
  add("asio", round_trip<asio_question<asio::thread_pool>>);
  add("asio_on_bwos", round_trip<asio_question<bwos::thread_pool>>);
  add("native", round_trip<native_question>);
}

}  // namespace

int main(int argc, char** argv) {
  if (bwos::bench::is_quick()) {
    tasks = std::size_t{1} << 14;
    round_trips = 20;
  }
  register_case<tree_shape>("tree");
  register_case<comb_shape>("comb");
  register_case<chain_shape>("chain");
  register_case<flat_shape>("outside");
  register_case<fan_shape>("fan");
  register_case<burst_shape>("burst", 20);
  register_round_trip();
  return bwos::bench::run_benchmarks(argc, argv);
}
