// SPDX-License-Identifier: Apache-2.0
// The options that its author builds it with for runtime-benchmarks.
#define TMC_PRIORITY_COUNT 1
#define TMC_TRIVIAL_TASK
#define TMC_USE_HWLOC
#include <tmc/ex_cpu.hpp>
#include <tmc/spawn.hpp>
#include <tmc/spawn_many.hpp>
#include <tmc/spawn_tuple.hpp>
#include <tmc/sync.hpp>
#include <tmc/task.hpp>

#include <numeric>
#include <ranges>

#include "cases.hpp"
#include "side.hpp"

namespace bwos::bench {
namespace {

tmc::task<std::uint64_t> fib(std::uint64_t n) {
  if (n < 2) co_return n;
  auto forked = tmc::spawn(fib(n - 1)).fork();
  const std::uint64_t b = co_await fib(n - 2);
  co_return b + co_await std::move(forked);
}

tmc::task<std::uint64_t> skynet(std::uint64_t number, std::uint64_t leaves) {
  if (leaves == 1) co_return number;
  const std::uint64_t part = leaves / skynet_children;
  const auto child = [=](std::uint64_t i) { return skynet(number + i * part, part); };
  auto children = std::views::iota(std::uint64_t{0}) | std::views::transform(child);
  const auto sums = co_await tmc::spawn_many<skynet_children>(children.begin());
  co_return std::accumulate(sums.begin(), sums.end(), std::uint64_t{0});
}

tmc::task<std::uint64_t> count(std::uint64_t node, std::uint64_t children) {
  if (children == 0) co_return 1;
  const auto child = [node](std::uint64_t index) {
    const std::uint64_t next = uts::child(node, index);
    return count(next, uts::children_of(next));
  };
  auto tasks = std::views::iota(std::uint64_t{0}) | std::views::transform(child);
  const auto sums = co_await tmc::spawn_many(tasks.begin(), children);
  co_return std::accumulate(sums.begin(), sums.end(), std::uint64_t{1});
}

template <std::size_t Forked>
tmc::task<std::uint64_t> queens(board placed, std::size_t row, std::size_t size) {
  if (row == size || row == Forked) co_return queens_from(placed, row, size);
  std::array<tmc::task<std::uint64_t>, queens_max> children;
  std::size_t fitting = 0;
  for (std::size_t column = 0; column < size; ++column) {
    if (!queen_fits(placed, row, column)) continue;
    placed[row] = static_cast<std::uint8_t>(column);
    children[fitting++] = queens<Forked>(placed, row + 1, size);
  }
  const auto sums =
      co_await tmc::spawn_many<queens_max>(children.data(), children.data() + fitting);
  co_return std::accumulate(sums.data(), sums.data() + fitting, std::uint64_t{0});
}

tmc::task<void> sort(std::uint32_t* first, std::uint32_t* last) {
  if (static_cast<std::size_t>(last - first) <= sort_leaf) {
    std::sort(first, last);
    co_return;
  }
  std::uint32_t* const middle = first + (last - first) / 2;
  co_await tmc::spawn_tuple(sort(first, middle), sort(middle, last));
  std::inplace_merge(first, middle, last);
}

tmc::task<void> multiply(const float* a, const float* b, float* c, std::size_t size,
                         std::size_t stride) {
  if (size <= product_leaf) {
    multiply_leaf(a, b, c, size, stride);
    co_return;
  }
  const std::size_t half = size / 2;
  const std::size_t down = half * stride;
  for (const std::size_t k : {std::size_t{0}, half}) {
    co_await tmc::spawn_tuple(
        multiply(a + k, b + k * stride, c, half, stride),
        multiply(a + k, b + k * stride + half, c + half, half, stride),
        multiply(a + down + k, b + k * stride, c + down, half, stride),
        multiply(a + down + k, b + k * stride + half, c + down + half, half, stride));
  }
}

tmc::task<std::uint64_t> deep(std::uint64_t levels) {
  if (levels == 0) co_return 0;
  co_return 1 + co_await deep(levels - 1);
}

template <class T>
T run(tmc::task<T> work) {
  return tmc::post_waitable(tmc::cpu_executor(), std::move(work)).get();
}

}  // namespace

std::vector<flavour> start_side(unsigned workers) {
  tmc::cpu_executor()
      .set_thread_count(workers)
      .set_thread_pinning_level(tmc::topology::thread_pinning_level::CORE)
      .init();
  return {{"tasks",
           {{"fib", [](std::uint64_t n) { return run(fib(n)); }},
            {"skynet", [](std::uint64_t n) { return run(skynet(0, skynet_leaves(n))); }},
            {"uts", [](std::uint64_t n) { return run(count(uts::mix(n), uts::roots)); }},
            {"queens", [](std::uint64_t n) { return run(queens<queens_forked>({}, 0, n)); }},
            {"queens_all", [](std::uint64_t n) { return run(queens<queens_max>({}, 0, n)); }},
            {"sort",
             [](std::uint64_t n) {
               return sorted(n, [](auto* first, auto* last) { run(sort(first, last)); });
             }},
            {"product",
             [](std::uint64_t n) {
               return product(n, [n](const float* a, const float* b, float* c) {
                 run(multiply(a, b, c, n, n));
               });
             }},
            {"deep", [](std::uint64_t n) { return run(deep(n)); }}}}};
}

}  // namespace bwos::bench
