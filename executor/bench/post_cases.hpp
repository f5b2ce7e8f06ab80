// SPDX-License-Identifier: Apache-2.0
// What is posted and run in the same way on every side of the question `post` (post_bench.cpp,
// post_tbb_bench.cpp, and rust/post_tokio for itself).
//
// Time per item is time per task, from the first post until join() has returned; making the pool is
// left out. In `tree` the queue grows to half of all tasks, far above what a worker's own queue
// holds; in `comb` every second task posts a leaf and its own successor, so that it stays short. In
// `fan` a task posts 64, the last of which to end posts the next one; `burst` are 1,000 tasks of a
// microsecond into a pool that sleeps, until the last has ended (500 ns a task where two workers
// lose nothing). In `ping_pong` two tasks post each other in turn: an operation is a hand-over.
// `wake` is from one post into a pool that sleeps until what was posted runs, `round_trip` until
// its poster, blocked on a condition variable, runs again.
#pragma once

#include <benchmark/benchmark.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include "answer.hpp"
#include "named_bench.hpp"

namespace bwos::bench {

inline unsigned workers = 2;  // of a pool

inline const std::size_t tasks = std::size_t{1} << (is_quick() ? 14 : 20);
inline const benchmark::IterationCount questions = is_quick() ? 20 : 1'000;

/// Tasks run, counted by each thread without sharing.
class ran_here {
 public:
  static void count() noexcept { ++mine(); }
  /// Of all threads since the last take(); nothing runs.
  static std::size_t take() {
    const std::lock_guard guard(lock);
    std::size_t sum = 0;
    for (counter& each : all) sum += std::exchange(each.tasks, 0);
    return sum;
  }

 private:
  struct alignas(64) counter {
    std::size_t tasks = 0;
  };
  static std::size_t& mine() noexcept {
    thread_local counter& own = add();
    return own.tasks;
  }
  static counter& add() {
    const std::lock_guard guard(lock);
    return all.emplace_back();
  }
  static inline std::mutex lock;
  static inline std::deque<counter> all;  // of threads that have ended, too
};

/// What a task posts: the tasks [first, last) of those that are left to post.
struct successors {
  std::size_t first;
  std::size_t last;
};
/// Of what a case consists.
struct shape {
  static std::size_t count() { return tasks; }  ///< Tasks in all.
  /// The first so many are posted by the thread outside.
  static std::size_t from_outside() { return 1; }
  /// Once the pool's workers sleep; `ended` is given with the last task.
  static constexpr bool into_sleepers = false;
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
/// The first two tasks, again and again.
struct ping_pong_shape : shape {
  static void begin() { left = tasks; }
  static successors of(std::size_t task) {
    if (--left == 0) return {0, 0};
    return {1 - task, 2 - task};
  }
  static inline std::size_t left;  // that of the one that runs
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
  static void begin() { left = count(); }
  static void work() {
    const auto until = steady::now() + std::chrono::microseconds(1);
    while (steady::now() < until) {
    }
    if (left.fetch_sub(1) == 1) ended.give();
  }
  static inline std::atomic<std::size_t> left;
  static inline answer ended;
};

template <class Side, class Shape>
void post_and_run(benchmark::State& state) {
  double cpu_s = 0;
  for (auto _ : state) {
    Shape::begin();
    Side side;
    if constexpr (Shape::into_sleepers) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    const double cpu_before = cpu_seconds();
    const auto start = steady::now();
    side.post_from_outside(Shape::from_outside());
    if constexpr (Shape::into_sleepers) {
      Shape::ended.take();
    } else {
      side.join();
    }
    state.SetIterationTime(std::chrono::duration<double>(steady::now() - start).count());
    cpu_s += cpu_seconds() - cpu_before;
    if constexpr (Shape::into_sleepers) side.join();
    if (ran_here::take() != Shape::count()) {
      state.SkipWithError("a task was lost or ran twice");
    }
  }
  const std::size_t all = static_cast<std::size_t>(state.iterations()) * Shape::count();
  state.counters["op_ns"] = ns_per(all);
  state.counters["op_cpu_ns"] = cpu_s * 1e9 / static_cast<double>(all);
}

/// Until the task runs or, `to_and_fro`, until its poster does again.
template <class Question>
void ask_sleepers(benchmark::State& state, bool to_and_fro) {
  Question question;
  for (auto _ : state) {
    // Asio's pool does not say when it sleeps; this is ten times what it takes.
    std::this_thread::sleep_for(std::chrono::microseconds(200));
    question.until_parked();
    const auto start = steady::now();
    question.ask();
    const auto ran = question.reply.take();
    const auto end = to_and_fro ? steady::now() : ran;
    state.SetIterationTime(std::chrono::duration<double>(end - start).count());
  }
  state.counters["op_ns"] = ns_per(static_cast<std::size_t>(state.iterations()));
}

template <class Side, class Shape>
void register_case(const std::string& side, const std::string& name,
                   benchmark::IterationCount iterations = 3) {
  benchmark::RegisterBenchmark((side + "/" + name).c_str(), &post_and_run<Side, Shape>)
      ->UseManualTime()
      ->Iterations(iterations)
      ->Unit(benchmark::kMillisecond);
}

/// All cases on one side. Side<Shape>: post_from_outside(n), the tasks [0, n) that the thread
/// outside posts, and join(); Question: ask(), `reply`, until_parked().
template <template <class> class Side, class Question>
void register_side(const std::string& name) {
  register_case<Side<tree_shape>, tree_shape>(name, "tree");
  register_case<Side<comb_shape>, comb_shape>(name, "comb");
  register_case<Side<chain_shape>, chain_shape>(name, "chain");
  register_case<Side<ping_pong_shape>, ping_pong_shape>(name, "ping_pong");
  register_case<Side<flat_shape>, flat_shape>(name, "outside");
  register_case<Side<fan_shape>, fan_shape>(name, "fan");
  register_case<Side<burst_shape>, burst_shape>(name, "burst", 20);
  for (const bool to_and_fro : {false, true}) {
    benchmark::RegisterBenchmark((name + (to_and_fro ? "/round_trip" : "/wake")).c_str(),
                                 &ask_sleepers<Question>, to_and_fro)
        ->UseManualTime()
        ->Iterations(questions)
        ->Unit(benchmark::kMicrosecond);
  }
}

}  // namespace bwos::bench
