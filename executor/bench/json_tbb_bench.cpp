// SPDX-License-Identifier: Apache-2.0
// oneTBB as a side of json_bench.cpp: documents are run in a task_group of an arena, in which the
// thread outside is one of the workers.
#include <tbb/global_control.h>
#include <tbb/task_arena.h>
#include <tbb/task_group.h>

#include <cstddef>

#include "json_cases.hpp"

namespace bwos::bench {
namespace {

class tbb_side {
 public:
  tbb_side(unsigned workers, documents& all)
      : all_(all),
        limit_(tbb::global_control::max_allowed_parallelism, workers),
        arena_(static_cast<int>(workers)) {}

  void decode(std::size_t batches) {
    arena_.execute([&] {
      tbb::task_group group;
      decode_in(group, batches, all_);
    });
  }

 private:
  documents& all_;
  tbb::global_control limit_;
  tbb::task_arena arena_;
};

}  // namespace
}  // namespace bwos::bench

int main(int count, char** arguments) {
  using namespace bwos::bench;
  register_side<tbb_side>("tbb");
  return run_benchmarks(count, arguments);
}
