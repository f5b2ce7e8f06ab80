// SPDX-License-Identifier: Apache-2.0
#include <tbb/global_control.h>
#include <tbb/parallel_invoke.h>
#include <tbb/task_arena.h>
#include <tbb/task_group.h>

#include <numeric>

#include "cases.hpp"
#include "side.hpp"

namespace bwos::bench {
namespace {

std::uint64_t fib(std::uint64_t n) {
  if (n < 2) return n;
  std::uint64_t a = 0;
  std::uint64_t b = 0;
  tbb::task_group group;
  group.run([&] { b = fib(n - 2); });
  a = fib(n - 1);
  group.wait();
  return a + b;
}

std::uint64_t skynet(std::uint64_t number, std::uint64_t leaves) {
  if (leaves == 1) return number;
  const std::uint64_t part = leaves / skynet_children;
  std::array<std::uint64_t, skynet_children> sums{};
  tbb::task_group group;
  for (std::uint64_t i = 1; i < skynet_children; ++i) {
    group.run([&sums, i, number, part] { sums[i] = skynet(number + i * part, part); });
  }
  sums[0] = skynet(number, part);
  group.wait();
  std::uint64_t sum = 0;
  for (const std::uint64_t each : sums) sum += each;
  return sum;
}

/// The sum of `part(i)` for each i below `count`, each a task.
template <class Part>
std::uint64_t sum_of(std::uint64_t count, const Part& part) {
  std::vector<std::uint64_t> sums(count);
  tbb::task_group group;
  for (std::uint64_t i = 0; i < count; ++i) {
    group.run([&sums, &part, i] { sums[i] = part(i); });
  }
  group.wait();
  return std::accumulate(sums.begin(), sums.end(), std::uint64_t{0});
}

std::uint64_t count(std::uint64_t node, std::uint64_t children) {
  if (children == 0) return 1;
  return 1 + sum_of(children, [node](std::uint64_t i) {
           const std::uint64_t next = uts::child(node, i);
           return count(next, uts::children_of(next));
         });
}

std::uint64_t walk(std::uint64_t children, unsigned depth) {
  if (depth == 0) return 1;
  return 1 + sum_of(children, [=](std::uint64_t) { return walk(children, depth - 1); });
}

void search(knapsack& in, knapsack::node at) {
  if (!in.is_promising(at)) return;
  tbb::parallel_invoke([&] { search(in, in.with(at)); }, [&] { search(in, in.without(at)); });
}

template <std::size_t Forked>
std::uint64_t queens(board placed, std::size_t row, std::size_t size) {
  if (row == size || row == Forked) return queens_from(placed, row, size);
  std::array<std::uint64_t, queens_max> sums{};
  tbb::task_group group;
  for (std::size_t column = 0; column < size; ++column) {
    if (!queen_fits(placed, row, column)) continue;
    placed[row] = static_cast<std::uint8_t>(column);
    group.run([&sums, column, placed, row, size] {
      sums[column] = queens<Forked>(placed, row + 1, size);
    });
  }
  group.wait();
  std::uint64_t sum = 0;
  for (const std::uint64_t each : sums) sum += each;
  return sum;
}

void sort(std::uint32_t* first, std::uint32_t* last) {
  if (static_cast<std::size_t>(last - first) <= sort_leaf) {
    std::sort(first, last);
    return;
  }
  std::uint32_t* const middle = first + (last - first) / 2;
  tbb::parallel_invoke([=] { sort(first, middle); }, [=] { sort(middle, last); });
  std::inplace_merge(first, middle, last);
}

void multiply(const float* a, const float* b, float* c, std::size_t size, std::size_t stride) {
  if (size <= product_leaf) {
    multiply_leaf(a, b, c, size, stride);
    return;
  }
  const std::size_t half = size / 2;
  const std::size_t down = half * stride;
  for (const std::size_t k : {std::size_t{0}, half}) {
    tbb::parallel_invoke(
        [=] { multiply(a + k, b + k * stride, c, half, stride); },
        [=] { multiply(a + k, b + k * stride + half, c + half, half, stride); },
        [=] { multiply(a + down + k, b + k * stride, c + down, half, stride); },
        [=] { multiply(a + down + k, b + k * stride + half, c + down + half, half, stride); });
  }
}

}  // namespace

std::vector<flavour> start_side(unsigned workers) {
  static const tbb::global_control limit(tbb::global_control::max_allowed_parallelism, workers);
  static tbb::task_arena arena(static_cast<int>(workers));
  const auto on = [](auto work) { return arena.execute(work); };
  return {{"task_group",
           {{"fib", [=](std::uint64_t n) { return on([n] { return fib(n); }); }},
            {"skynet",
             [=](std::uint64_t n) { return on([n] { return skynet(0, skynet_leaves(n)); }); }},
            {"uts",
             [=](std::uint64_t n) { return on([n] { return count(uts::mix(n), uts::roots); }); }},
            {"queens",
             [=](std::uint64_t n) { return on([n] { return queens<queens_forked>({}, 0, n); }); }},
            {"queens_all",
             [=](std::uint64_t n) { return on([n] { return queens<queens_max>({}, 0, n); }); }},
            {"sort",
             [=](std::uint64_t n) {
               return sorted(n, [on](auto* first, auto* last) { on([=] { sort(first, last); }); });
             }},
            {"product",
             [=](std::uint64_t n) {
               return product(n, [on, n](const float* a, const float* b, float* c) {
                 on([=] { multiply(a, b, c, n, n); });
               });
             }},
            {"knapsack",
             [=](std::uint64_t n) {
               knapsack in(n);
               on([&in] { search(in, in.root()); });
               return in.best();
             }},
            {"walk", [=](std::uint64_t n) { return on([n] { return walk(n, walk_depth); }); }}}}};
}

}  // namespace bwos::bench
