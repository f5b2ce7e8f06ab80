// SPDX-License-Identifier: Apache-2.0
// With room for what `walk` forks at once: what overflows goes to a queue that all share, and then
// waits nest until the stack is used up.
#define TF_DEFAULT_BOUNDED_TASK_QUEUE_LOG_SIZE 10
#include <taskflow/taskflow.hpp>

#include <numeric>
#include <optional>

#include "cases.hpp"
#include "side.hpp"

namespace bwos::bench {
namespace {

std::optional<tf::Executor> on;

std::uint64_t fib(std::uint64_t n) {
  if (n < 2) return n;
  std::uint64_t a = 0;
  tf::TaskGroup group = on->task_group();
  group.silent_async([&a, n] { a = fib(n - 1); });
  const std::uint64_t b = fib(n - 2);
  group.corun();
  return a + b;
}

std::uint64_t skynet(std::uint64_t number, std::uint64_t leaves) {
  if (leaves == 1) return number;
  const std::uint64_t part = leaves / skynet_children;
  std::array<std::uint64_t, skynet_children> sums;
  tf::TaskGroup group = on->task_group();
  for (std::uint64_t i = 1; i < skynet_children; ++i) {
    group.silent_async([&sums, i, number, part] { sums[i] = skynet(number + i * part, part); });
  }
  sums[0] = skynet(number, part);
  group.corun();
  return std::accumulate(sums.begin(), sums.end(), std::uint64_t{0});
}

/// The sum of `part(i)` for each i below `count`, each a task.
template <class Part>
std::uint64_t sum_of(std::uint64_t count, const Part& part) {
  std::vector<std::uint64_t> sums(count);
  tf::TaskGroup group = on->task_group();
  for (std::uint64_t i = 0; i < count; ++i) {
    group.silent_async([&sums, &part, i] { sums[i] = part(i); });
  }
  group.corun();
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
  tf::TaskGroup group = on->task_group();
  group.silent_async([&in, at] { search(in, in.with(at)); });
  search(in, in.without(at));
  group.corun();
}

template <std::size_t Forked>
std::uint64_t queens(board placed, std::size_t row, std::size_t size) {
  if (row == size || row == Forked) return queens_from(placed, row, size);
  std::array<std::uint64_t, queens_max> sums{};
  tf::TaskGroup group = on->task_group();
  for (std::size_t column = 0; column < size; ++column) {
    if (!queen_fits(placed, row, column)) continue;
    placed[row] = static_cast<std::uint8_t>(column);
    group.silent_async([&sums, column, placed, row, size] {
      sums[column] = queens<Forked>(placed, row + 1, size);
    });
  }
  group.corun();
  return std::accumulate(sums.begin(), sums.end(), std::uint64_t{0});
}

void sort(std::uint32_t* first, std::uint32_t* last) {
  if (static_cast<std::size_t>(last - first) <= sort_leaf) {
    std::sort(first, last);
    return;
  }
  std::uint32_t* const middle = first + (last - first) / 2;
  tf::TaskGroup group = on->task_group();
  group.silent_async([=] { sort(first, middle); });
  sort(middle, last);
  group.corun();
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
    tf::TaskGroup group = on->task_group();
    const auto fork = [&](std::size_t from_a, std::size_t from_b, std::size_t to) {
      group.silent_async([=] { multiply(a + from_a, b + from_b, c + to, half, stride); });
    };
    fork(k, k * stride, 0);
    fork(k, k * stride + half, half);
    fork(down + k, k * stride, down);
    multiply(a + down + k, b + k * stride + half, c + down + half, half, stride);
    group.corun();
  }
}

/// What `work()` returns on a worker.
template <class Work>
auto run(const Work& work) {
  return on->async(work).get();
}

}  // namespace

std::vector<flavour> start_side(unsigned workers) {
  on.emplace(workers);
  return {{"task_group",
           {{"fib", [](std::uint64_t n) { return run([n] { return fib(n); }); }},
            {"skynet",
             [](std::uint64_t n) { return run([n] { return skynet(0, skynet_leaves(n)); }); }},
            {"uts",
             [](std::uint64_t n) { return run([n] { return count(uts::mix(n), uts::roots); }); }},
            {"queens",
             [](std::uint64_t n) { return run([n] { return queens<queens_forked>({}, 0, n); }); }},
            {"queens_all",
             [](std::uint64_t n) { return run([n] { return queens<queens_max>({}, 0, n); }); }},
            {"sort",
             [](std::uint64_t n) {
               return sorted(n, [](auto* first, auto* last) { run([=] { sort(first, last); }); });
             }},
            {"product",
             [](std::uint64_t n) {
               return product(n, [n](const float* a, const float* b, float* c) {
                 run([=] { multiply(a, b, c, n, n); });
               });
             }},
            {"knapsack",
             [](std::uint64_t n) {
               knapsack in(n);
               run([&in] { search(in, in.root()); });
               return in.best();
             }},
            {"walk", [](std::uint64_t n) { return run([n] { return walk(n, walk_depth); }); }}}}};
}

}  // namespace bwos::bench
