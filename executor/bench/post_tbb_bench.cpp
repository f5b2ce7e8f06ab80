// SPDX-License-Identifier: Apache-2.0
// oneTBB as a side of post_bench.cpp: tasks run in a task_group of an arena, which has two workers
// beside the thread outside. Nothing says when they sleep.
#include <tbb/global_control.h>
#include <tbb/task_arena.h>
#include <tbb/task_group.h>

#include <cstddef>

#include "post_cases.hpp"

namespace bwos::bench {
namespace {

template <class Shape>
class tbb_side {
 public:
  void post_from_outside(std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) arena_.enqueue(group_.defer(task{*this, i}));
  }
  void join() {
    arena_.execute([&] { group_.wait(); });
  }

 private:
  struct task {
    tbb_side& side;
    std::size_t index;
    void operator()() const {
      ran_here::count();
      Shape::work();
      const auto [first, last] = Shape::of(index);
      for (std::size_t i = first; i < last; ++i) side.group_.run(task{side, i});
    }
  };

  tbb::task_arena arena_{static_cast<int>(workers), 0};
  tbb::task_group group_;
};

class tbb_question {
 public:
  void ask() {
    arena_.enqueue([this] { reply.give(); });
  }
  void until_parked() {}
  answer reply;

 private:
  tbb::task_arena arena_{static_cast<int>(workers), 0};
};

}  // namespace
}  // namespace bwos::bench

int main(int count, char** arguments) {
  using namespace bwos::bench;
  const tbb::global_control threads(tbb::global_control::max_allowed_parallelism, workers + 1);
  register_side<tbb_side, tbb_question>("tbb");
  return run_benchmarks(count, arguments);
}
