// SPDX-License-Identifier: Apache-2.0
#include <bwos/fork_join.hpp>
#include <bwos/pool.hpp>
#include <bwos/sync_wait.hpp>
#include <bwos/task_group.hpp>

#include <ranges>

#include "cases.hpp"
#include "side.hpp"

namespace bwos::bench {
namespace {

namespace coroutines {

fork_task<std::uint64_t> fib(std::uint64_t n) {
  if (n < 2) co_return n;
  auto [a, b] = co_await fork_join(fib(n - 1), fib(n - 2));
  co_return a + b;
}

fork_task<std::uint64_t> skynet(std::uint64_t number, std::uint64_t leaves) {
  if (leaves == 1) co_return number;
  const std::uint64_t part = leaves / skynet_children;
  const auto child = [&](std::uint64_t i) { return skynet(number + i * part, part); };
  const auto each = co_await fork_join(child(0), child(1), child(2), child(3), child(4), child(5),
                                       child(6), child(7), child(8), child(9));
  co_return std::apply([](auto... sum) { return (sum + ...); }, each);
}

fork_task<std::uint64_t> count(std::uint64_t node, std::uint64_t children) {
  if (children == 0) co_return 1;
  const auto child = [node](std::uint64_t index) {
    const std::uint64_t next = uts::child(node, index);
    return count(next, uts::children_of(next));
  };
  std::uint64_t sum = 1;
  for (const std::uint64_t each : co_await when_all(std::views::iota(std::uint64_t{0}, children) |
                                                    std::views::transform(child))) {
    sum += each;
  }
  co_return sum;
}

template <std::size_t Forked>
fork_task<std::uint64_t> queens(board placed, std::size_t row, std::size_t size) {
  if (row == size || row == Forked) co_return queens_from(placed, row, size);
  const auto fits = [&](std::size_t column) { return queen_fits(placed, row, column); };
  const auto child = [&](std::size_t column) {
    placed[row] = static_cast<std::uint8_t>(column);
    return queens<Forked>(placed, row + 1, size);
  };
  std::uint64_t sum = 0;
  for (const std::uint64_t each :
       co_await when_all(std::views::iota(std::size_t{0}, size) | std::views::filter(fits) |
                         std::views::transform(child))) {
    sum += each;
  }
  co_return sum;
}

fork_task<> sort(std::uint32_t* first, std::uint32_t* last) {
  if (static_cast<std::size_t>(last - first) <= sort_leaf) {
    std::sort(first, last);
    co_return;
  }
  std::uint32_t* const middle = first + (last - first) / 2;
  co_await fork_join(sort(first, middle), sort(middle, last));
  std::inplace_merge(first, middle, last);
}

fork_task<> multiply(const float* a, const float* b, float* c, std::size_t size,
                     std::size_t stride) {
  if (size <= product_leaf) {
    multiply_leaf(a, b, c, size, stride);
    co_return;
  }
  const std::size_t half = size / 2;
  const std::size_t down = half * stride;
  for (const std::size_t k : {std::size_t{0}, half}) {
    co_await fork_join(
        multiply(a + k, b + k * stride, c, half, stride),
        multiply(a + k, b + k * stride + half, c + half, half, stride),
        multiply(a + down + k, b + k * stride, c + down, half, stride),
        multiply(a + down + k, b + k * stride + half, c + down + half, half, stride));
  }
}

fork_task<std::uint64_t> walk(std::uint64_t children, unsigned depth) {
  if (depth == 0) co_return 1;
  std::uint64_t sum = 1;
  for (const std::uint64_t each : co_await when_all(
           std::views::iota(std::uint64_t{0}, children) |
           std::views::transform([=](std::uint64_t) { return walk(children, depth - 1); }))) {
    sum += each;
  }
  co_return sum;
}

fork_task<> search(knapsack& in, knapsack::node at) {
  if (!in.is_promising(at)) co_return;
  co_await fork_join(search(in, in.with(at)), search(in, in.without(at)));
}

fork_task<std::uint64_t> deep(std::uint64_t levels) {
  if (levels == 0) co_return 0;
  co_return 1 + co_await deep(levels - 1);
}

}  // namespace coroutines

namespace functions {

std::uint64_t fib(std::uint64_t n) {
  if (n < 2) return n;
  std::uint64_t a = 0;
  std::uint64_t b = 0;
  invoke([&] { a = fib(n - 1); }, [&] { b = fib(n - 2); });
  return a + b;
}

/// The sum of `part(i)` for each i in [first, last), of which there is one.
template <class Part>
std::uint64_t sum_of(std::uint64_t first, std::uint64_t last, const Part& part) {
  if (last - first == 1) return part(first);
  const std::uint64_t middle = first + (last - first) / 2;
  std::uint64_t a = 0;
  std::uint64_t b = 0;
  invoke([&] { a = sum_of(first, middle, part); }, [&] { b = sum_of(middle, last, part); });
  return a + b;
}

std::uint64_t skynet(std::uint64_t number, std::uint64_t leaves) {
  if (leaves == 1) return number;
  const std::uint64_t part = leaves / skynet_children;
  return sum_of(0, skynet_children,
                [=](std::uint64_t i) { return skynet(number + i * part, part); });
}

std::uint64_t count(std::uint64_t node, std::uint64_t children) {
  if (children == 0) return 1;
  return 1 + sum_of(0, children, [node](std::uint64_t index) {
           const std::uint64_t next = uts::child(node, index);
           return count(next, uts::children_of(next));
         });
}

template <std::size_t Forked>
std::uint64_t queens(board placed, std::size_t row, std::size_t size) {
  if (row == size || row == Forked) return queens_from(placed, row, size);
  board columns;
  const std::size_t fitting = fitting_columns(placed, row, size, columns);
  if (fitting == 0) return 0;
  return sum_of(0, fitting, [&](std::uint64_t i) {
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
  invoke([&] { sort(first, middle); }, [&] { sort(middle, last); });
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
    invoke([=] { multiply(a + k, b + k * stride, c, half, stride); },
           [=] { multiply(a + k, b + k * stride + half, c + half, half, stride); },
           [=] { multiply(a + down + k, b + k * stride, c + down, half, stride); },
           [=] { multiply(a + down + k, b + k * stride + half, c + down + half, half, stride); });
  }
}

std::uint64_t walk(std::uint64_t children, unsigned depth) {
  if (depth == 0) return 1;
  return 1 + sum_of(0, children, [=](std::uint64_t) { return walk(children, depth - 1); });
}

void search(knapsack& in, knapsack::node at) {
  if (!in.is_promising(at)) return;
  invoke([&] { search(in, in.with(at)); }, [&] { search(in, in.without(at)); });
}

}  // namespace functions

}  // namespace

std::vector<flavour> start_side(unsigned workers) {
  options how;
  how.workers = workers;
  how.reactor = reactor_kind::none;
  static pool on(how);
  std::vector<flavour> result;
  result.push_back(
      {"coroutines",
       {{"fib", [](std::uint64_t n) { return sync_wait(on, coroutines::fib(n)); }},
        {"skynet",
         [](std::uint64_t n) { return sync_wait(on, coroutines::skynet(0, skynet_leaves(n))); }},
        {"uts",
         [](std::uint64_t n) { return sync_wait(on, coroutines::count(uts::mix(n), uts::roots)); }},
        {"queens",
         [](std::uint64_t n) {
           return sync_wait(on, coroutines::queens<queens_forked>({}, 0, n));
         }},
        {"queens_all",
         [](std::uint64_t n) { return sync_wait(on, coroutines::queens<queens_max>({}, 0, n)); }},
        {"sort",
         [](std::uint64_t n) {
           return sorted(
               n, [](auto* first, auto* last) { sync_wait(on, coroutines::sort(first, last)); });
         }},
        {"product",
         [](std::uint64_t n) {
           return product(n, [n](const float* a, const float* b, float* c) {
             sync_wait(on, coroutines::multiply(a, b, c, n, n));
           });
         }},
        {"knapsack",
         [](std::uint64_t n) {
           knapsack in(n);
           sync_wait(on, coroutines::search(in, in.root()));
           return in.best();
         }},
        {"walk", [](std::uint64_t n) { return sync_wait(on, coroutines::walk(n, walk_depth)); }},
        {"deep", [](std::uint64_t n) { return sync_wait(on, coroutines::deep(n)); }}}});
  result.push_back(
      {"invoke",
       {{"fib", [](std::uint64_t n) { return sync_wait(on, [n] { return functions::fib(n); }); }},
        {"skynet",
         [](std::uint64_t n) {
           return sync_wait(on, [n] { return functions::skynet(0, skynet_leaves(n)); });
         }},
        {"uts",
         [](std::uint64_t n) {
           return sync_wait(on, [n] { return functions::count(uts::mix(n), uts::roots); });
         }},
        {"queens",
         [](std::uint64_t n) {
           return sync_wait(on, [n] { return functions::queens<queens_forked>({}, 0, n); });
         }},
        {"queens_all",
         [](std::uint64_t n) {
           return sync_wait(on, [n] { return functions::queens<queens_max>({}, 0, n); });
         }},
        {"sort",
         [](std::uint64_t n) {
           return sorted(n, [](auto* first, auto* last) {
             sync_wait(on, [=] { functions::sort(first, last); });
           });
         }},
        {"product",
         [](std::uint64_t n) {
           return product(n, [n](const float* a, const float* b, float* c) {
             sync_wait(on, [=] { functions::multiply(a, b, c, n, n); });
           });
         }},
        {"knapsack",
         [](std::uint64_t n) {
           knapsack in(n);
           sync_wait(on, [&in] { functions::search(in, in.root()); });
           return in.best();
         }},
        {"walk", [](std::uint64_t n) {
           return sync_wait(on, [n] { return functions::walk(n, walk_depth); });
         }}}});
  return result;
}

}  // namespace bwos::bench
