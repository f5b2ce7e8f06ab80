// SPDX-License-Identifier: Apache-2.0
// What every side of the fork-join benchmark computes: parameters, the work of a leaf, and the
// answer that it must come to.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <vector>

#include "../measure.hpp"

namespace bwos::bench {

/// What cases have done aside since side.cpp last set it to 0: it is no part of their time.
struct time_aside {
  double wall_s = 0;
  double cpu_s = 0;
};
inline time_aside spent_aside;
/// Prepares something, or checks it, on one thread.
template <class Work>
auto aside(const Work& work) {
  const double wall = seconds(CLOCK_MONOTONIC);
  const double cpu = cpu_seconds();
  auto result = work();
  spent_aside.wall_s += seconds(CLOCK_MONOTONIC) - wall;
  spent_aside.cpu_s += cpu_seconds() - cpu;
  return result;
}

/// Calls of fib(n), itself included.
inline std::uint64_t fib_calls(std::uint64_t n) {
  return n < 2 ? 1 : 1 + fib_calls(n - 1) + fib_calls(n - 2);
}

/// A tree of ten children each, whose leaves are numbered: their sum (Yves Caseau's "skynet").
inline constexpr std::uint64_t skynet_children = 10;
inline std::uint64_t skynet_leaves(std::uint64_t levels) {
  return levels == 0 ? 1 : skynet_children * skynet_leaves(levels - 1);
}

/// Unbalanced tree search (Olivier et al., LCPC '06), binomial: the root has `roots` children, each
/// other node has `children` with probability `q`, else none. With a hash that costs little.
namespace uts {
inline constexpr std::uint64_t roots = 2000;
inline constexpr std::uint64_t children = 8;
inline constexpr double q = 0.1240;

constexpr std::uint64_t mix(std::uint64_t value) {
  value += 0x9e3779b97f4a7c15U;
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9U;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebU;
  return value ^ (value >> 31);
}
inline std::uint64_t child(std::uint64_t node, std::uint64_t index) {
  return mix(node ^ (index + 1));
}
inline std::uint64_t children_of(std::uint64_t node) {
  return static_cast<double>(node >> 11) * 0x1.0p-53 < q ? children : 0;
}
inline std::uint64_t count(std::uint64_t node, std::uint64_t below) {
  std::uint64_t sum = 1;
  for (std::uint64_t i = 0; i < below; ++i) {
    const std::uint64_t next = child(node, i);
    sum += count(next, children_of(next));
  }
  return sum;
}
}  // namespace uts

inline constexpr std::size_t queens_max = 16;
using board = std::array<std::uint8_t, queens_max>;
inline bool queen_fits(const board& queens, std::size_t row, std::size_t column) {
  for (std::size_t i = 0; i < row; ++i) {
    const std::size_t other = queens[i];
    if (other == column || other + row == column + i || other + i == column + row) return false;
  }
  return true;
}
/// Those of the row where a queen fits, and how many they are.
inline std::size_t fitting_columns(const board& queens, std::size_t row, std::size_t size,
                                   board& columns) {
  std::size_t fitting = 0;
  for (std::size_t column = 0; column < size; ++column) {
    if (queen_fits(queens, row, column)) columns[fitting++] = static_cast<std::uint8_t>(column);
  }
  return fitting;
}
// The work of a leaf is the same machine code on each side, and lies there in the same way.
[[gnu::noinline, gnu::aligned(64)]] inline std::uint64_t queens_from(board& queens, std::size_t row,
                                                                     std::size_t size) {
  if (row == size) return 1;
  std::uint64_t sum = 0;
  for (std::size_t column = 0; column < size; ++column) {
    if (!queen_fits(queens, row, column)) continue;
    queens[row] = static_cast<std::uint8_t>(column);
    sum += queens_from(queens, row + 1, size);
  }
  return sum;
}
/// Rows that are forked; below, a leaf. Or else all of them are.
inline constexpr std::size_t queens_forked = 5;

inline constexpr std::size_t sort_leaf = 512;
inline std::vector<std::uint32_t> numbers(std::size_t count) {
  std::vector<std::uint32_t> result(count);
  std::uint64_t state = 1;
  for (std::uint32_t& each : result) each = static_cast<std::uint32_t>((state = uts::mix(state)));
  return result;
}
/// `sort(first, last)` sorts them.
template <class Sort>
std::uint64_t sorted(std::uint64_t count, const Sort& sort) {
  std::vector<std::uint32_t> values = aside([&] { return numbers(count); });
  sort(values.data(), values.data() + values.size());
  return aside([&]() -> std::uint64_t {
    return std::is_sorted(values.begin(), values.end()) ? values[count / 2] : 0;
  });
}

/// c += a * b of square blocks in matrices of `stride`.
inline constexpr std::size_t product_leaf = 32;
[[gnu::noinline, gnu::aligned(64)]] inline void multiply_leaf(const float* a, const float* b,
                                                              float* c, std::size_t size,
                                                              std::size_t stride) {
  for (std::size_t i = 0; i < size; ++i) {
    for (std::size_t k = 0; k < size; ++k) {
      const float factor = a[i * stride + k];
      for (std::size_t j = 0; j < size; ++j) c[i * stride + j] += factor * b[k * stride + j];
    }
  }
}
/// `multiply(a, b, c)` does the same for matrices of `size`.
template <class Multiply>
std::uint64_t product(std::uint64_t size, const Multiply& multiply) {
  const auto matrix_of = [size](float value) {
    return aside([&] { return std::vector<float>(size * size, value); });
  };
  const std::vector<float> a = matrix_of(1);
  const std::vector<float> b = matrix_of(2);
  std::vector<float> c = matrix_of(0);
  multiply(a.data(), b.data(), c.data());
  return static_cast<std::uint64_t>(c[size + 1]);
}

/// The 0-1 knapsack problem by branch and bound: from a node a task goes on with an item, and
/// another one without it. Values are the weights, which are even, and the capacity is odd, so that
/// the bound stays above what can be had: in whatever order nodes are visited, they are the same
/// but for a handful.
class knapsack {
 public:
  struct node {
    std::size_t item = 0;   ///< The next one to decide about.
    std::int64_t room = 0;  ///< Below 0: what was taken is too heavy.
    std::int64_t value = 0;
  };

  explicit knapsack(std::size_t count) : items_(count) {
    std::int64_t sum = 0;
    for (std::size_t i = 0; i < count; ++i) {
      const auto weight = static_cast<std::int64_t>(2 + 2 * (uts::mix(i) % 1000));
      items_[i] = {weight, weight};
      sum += weight;
    }
    root_.room = (sum / 2) | 1;
  }
  [[nodiscard]] node root() const { return root_; }
  [[nodiscard]] node with(node at) const {
    const auto [weight, value] = items_[at.item];
    return {at.item + 1, at.room - weight, at.value + value};
  }
  [[nodiscard]] static node without(node at) { return {at.item + 1, at.room, at.value}; }

  /// Whether a node below this one may be better than all so far, this one included.
  [[gnu::noinline, gnu::aligned(64)]] bool is_promising(node at) {
    if (at.room < 0) return false;
    std::int64_t best = best_.load(std::memory_order_relaxed);
    while (best < at.value &&
           !best_.compare_exchange_weak(best, at.value, std::memory_order_relaxed)) {
    }
    return bound(at) > best_.load(std::memory_order_relaxed);
  }
  [[nodiscard]] std::uint64_t best() const { return static_cast<std::uint64_t>(best_.load()); }

 private:
  struct item {
    std::int64_t weight;
    std::int64_t value;
  };

  /// As if a part of an item could be taken.
  [[nodiscard]] std::int64_t bound(node at) const {
    for (; at.item != items_.size(); at = with(at)) {
      const auto [weight, value] = items_[at.item];
      if (weight > at.room) return at.value + value * at.room / weight;
    }
    return at.value;
  }

  std::vector<item> items_;  // bound() needs those of more value for their weight first
  node root_;
  std::atomic<std::int64_t> best_{0};
};

/// Levels of tasks below the root, each of which has the same number of children.
inline constexpr unsigned walk_depth = 3;

}  // namespace bwos::bench
