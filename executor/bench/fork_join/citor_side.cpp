// SPDX-License-Identifier: Apache-2.0
#include <citor/thread_pool.h>

#include <cstdio>
#include <numeric>
#include <optional>
#include <thread>

#include "cases.hpp"
#include "side.hpp"

namespace bwos::bench {
namespace {

std::optional<citor::ThreadPool> on;

template <class... Function>
void fork_join(const Function&... functions) {
  on->forkJoin<citor::HintsDefaults>(functions...);
}

/// The sum of `part(i)` for each i below `count`.
template <std::size_t Most, class Part>
std::uint64_t sum_of(std::size_t count, const Part& part) {
  std::array<std::uint64_t, Most> sums;
  on->forkJoinAll<citor::HintsDefaults>(count, [&](std::size_t i) { sums[i] = part(i); });
  return std::accumulate(sums.data(), sums.data() + count, std::uint64_t{0});
}

std::uint64_t fib(std::uint64_t n) {
  if (n < 2) return n;
  std::uint64_t a = 0;
  std::uint64_t b = 0;
  fork_join([&] { a = fib(n - 1); }, [&] { b = fib(n - 2); });
  return a + b;
}

std::uint64_t skynet(std::uint64_t number, std::uint64_t leaves) {
  if (leaves == 1) return number;
  const std::uint64_t part = leaves / skynet_children;
  return sum_of<skynet_children>(skynet_children,
                                 [=](std::uint64_t i) { return skynet(number + i * part, part); });
}

template <std::size_t Most>
std::uint64_t count(std::uint64_t node, std::uint64_t children) {
  return 1 + sum_of<Most>(children, [node](std::uint64_t index) {
           const std::uint64_t next = uts::child(node, index);
           return count<uts::children>(next, uts::children_of(next));
         });
}

template <std::size_t Forked>
std::uint64_t queens(board placed, std::size_t row, std::size_t size) {
  if (row == size || row == Forked) return queens_from(placed, row, size);
  board columns;
  const std::size_t fitting = fitting_columns(placed, row, size, columns);
  return sum_of<queens_max>(fitting, [&](std::size_t i) {
    board next = placed;
    next[row] = columns[i];
    return queens<Forked>(next, row + 1, size);
  });
}

void sort(std::uint32_t* first, std::uint32_t* last) {
  if (static_cast<std::size_t>(last - first) <= sort_leaf) {
    std::sort(first, last);
    return;
  }
  std::uint32_t* const middle = first + (last - first) / 2;
  fork_join([=] { sort(first, middle); }, [=] { sort(middle, last); });
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
    fork_join(
        [=] { multiply(a + k, b + k * stride, c, half, stride); },
        [=] { multiply(a + k, b + k * stride + half, c + half, half, stride); },
        [=] { multiply(a + down + k, b + k * stride, c + down, half, stride); },
        [=] { multiply(a + down + k, b + k * stride + half, c + down + half, half, stride); });
  }
}

/// The caller is one of the workers. They keep to one CPU of a core each unless citor is told that
/// all CPUs are asked for.
void start(unsigned workers) {
  on.emplace(workers, workers == std::thread::hardware_concurrency()
                          ? citor::Affinity::PerCpuSmtPair
                          : citor::Affinity::PerCpu);
  if (on->participants() == workers) return;
  std::fprintf(stderr, "citor starts %zu workers here, not %u\n", on->participants(), workers);
  std::exit(3);
}

}  // namespace

std::vector<flavour> start_side(unsigned workers) {
  start(workers);
  return {{"fork_join",
           {{"fib", fib},
            {"skynet", [](std::uint64_t n) { return skynet(0, skynet_leaves(n)); }},
            {"uts", [](std::uint64_t n) { return count<uts::roots>(uts::mix(n), uts::roots); }},
            {"queens", [](std::uint64_t n) { return queens<queens_forked>({}, 0, n); }},
            {"queens_all", [](std::uint64_t n) { return queens<queens_max>({}, 0, n); }},
            {"sort", [](std::uint64_t n) { return sorted(n, sort); }},
            {"product", [](std::uint64_t n) {
               return product(
                   n, [n](const float* a, const float* b, float* c) { multiply(a, b, c, n, n); });
             }}}}};
}

}  // namespace bwos::bench
