// SPDX-License-Identifier: Apache-2.0
// Fork-join of functions. executor/README.md shows what stands between the marks.
// [readme]
#include <bwos/parallel.hpp>
#include <bwos/task_graph.hpp>
#include <bwos/task_group.hpp>
#include <cstdio>
#include <vector>

int main() {
  bwos::pool pool;
  std::vector<double> roots(100'000);
  bwos::parallel_for(pool, std::size_t{0}, roots.size(),
                     [&](std::size_t i) { roots[i] = static_cast<double>(i) / 2; });
  const double sum = bwos::parallel_reduce(pool, std::size_t{0}, roots.size(), 0.0,
                                           [&](std::size_t i) { return roots[i]; });

  bwos::task_group group(pool);
  for (int i = 0; i < 3; ++i) {
    group.run([] { bwos::invoke([] { /* one half */ }, [] { /* the other half */ }); });
  }
  group.wait();  // throws what one of them has thrown

  bwos::task_graph build;
  const auto compile = build.add([] { std::puts("compile"); });
  const auto link = build.add([] { std::puts("link"); });
  build.precede(compile, link);
  build.run(pool);
  std::printf("%.0f\n", sum);
}
// [readme]
