// SPDX-License-Identifier: Apache-2.0
#include <libfork.hpp>

#include "cases.hpp"
#include "side.hpp"

namespace bwos::bench {
namespace {

inline constexpr auto fib = [](auto fib, std::uint64_t n) -> lf::task<std::uint64_t> {
  if (n < 2) co_return n;
  std::uint64_t a = 0;
  std::uint64_t b = 0;
  co_await lf::fork(&a, fib)(n - 1);
  co_await lf::call(&b, fib)(n - 2);
  co_await lf::join;
  co_return a + b;
};

inline constexpr auto skynet = [](auto skynet, std::uint64_t number,
                                  std::uint64_t leaves) -> lf::task<std::uint64_t> {
  if (leaves == 1) co_return number;
  const std::uint64_t part = leaves / skynet_children;
  std::array<std::uint64_t, skynet_children> sums{};
  for (std::uint64_t i = 0; i < skynet_children - 1; ++i) {
    co_await lf::fork(&sums[i], skynet)(number + i * part, part);
  }
  co_await lf::call(&sums.back(), skynet)(number + (skynet_children - 1) * part, part);
  co_await lf::join;
  std::uint64_t sum = 0;
  for (const std::uint64_t each : sums) sum += each;
  co_return sum;
};

inline constexpr auto count = [](auto count, std::uint64_t node,
                                 std::uint64_t children) -> lf::task<std::uint64_t> {
  if (children == 0) co_return 1;
  std::vector<std::uint64_t> sums(children);
  for (std::uint64_t i = 0; i < children; ++i) {
    const std::uint64_t next = uts::child(node, i);
    if (i + 1 == children) {
      co_await lf::call(&sums[i], count)(next, uts::children_of(next));
    } else {
      co_await lf::fork(&sums[i], count)(next, uts::children_of(next));
    }
  }
  co_await lf::join;
  std::uint64_t sum = 1;
  for (const std::uint64_t each : sums) sum += each;
  co_return sum;
};

template <std::size_t Forked>
inline constexpr auto queens =
    [](auto queens, board placed, std::size_t row, std::size_t size) -> lf::task<std::uint64_t> {
  if (row == size || row == Forked) co_return queens_from(placed, row, size);
  std::array<std::uint64_t, queens_max> sums{};
  for (std::size_t column = 0; column < size; ++column) {
    if (!queen_fits(placed, row, column)) continue;
    placed[row] = static_cast<std::uint8_t>(column);
    co_await lf::fork(&sums[column], queens)(placed, row + 1, size);
  }
  co_await lf::join;
  std::uint64_t sum = 0;
  for (const std::uint64_t each : sums) sum += each;
  co_return sum;
};

inline constexpr auto sort = [](auto sort, std::uint32_t* first,
                                std::uint32_t* last) -> lf::task<> {
  if (static_cast<std::size_t>(last - first) <= sort_leaf) {
    std::sort(first, last);
    co_return;
  }
  std::uint32_t* const middle = first + (last - first) / 2;
  co_await lf::fork(sort)(first, middle);
  co_await lf::call(sort)(middle, last);
  co_await lf::join;
  std::inplace_merge(first, middle, last);
};

inline constexpr auto multiply = [](auto multiply, const float* a, const float* b, float* c,
                                    std::size_t size, std::size_t stride) -> lf::task<> {
  if (size <= product_leaf) {
    multiply_leaf(a, b, c, size, stride);
    co_return;
  }
  const std::size_t half = size / 2;
  const std::size_t down = half * stride;
  for (const std::size_t k : {std::size_t{0}, half}) {
    co_await lf::fork(multiply)(a + k, b + k * stride, c, half, stride);
    co_await lf::fork(multiply)(a + k, b + k * stride + half, c + half, half, stride);
    co_await lf::fork(multiply)(a + down + k, b + k * stride, c + down, half, stride);
    co_await lf::call(multiply)(a + down + k, b + k * stride + half, c + down + half, half, stride);
    co_await lf::join;
  }
};

inline constexpr auto deep = [](auto deep, std::uint64_t levels) -> lf::task<std::uint64_t> {
  if (levels == 0) co_return 0;
  std::uint64_t below = 0;
  co_await lf::call(&below, deep)(levels - 1);
  co_await lf::join;
  co_return below + 1;
};

/// Its pools: workers that spin, and workers that sleep when there is nothing for them.
template <class Pool>
std::vector<measured_case> cases_on(Pool& on) {
  return {{"fib", [&on](std::uint64_t n) { return lf::sync_wait(on, fib, n); }},
          {"skynet",
           [&on](std::uint64_t n) {
             return lf::sync_wait(on, skynet, std::uint64_t{0}, skynet_leaves(n));
           }},
          {"uts",
           [&on](std::uint64_t n) {
             return lf::sync_wait(on, count, uts::mix(n), std::uint64_t{uts::roots});
           }},
          {"queens",
           [&on](std::uint64_t n) {
             return lf::sync_wait(on, queens<queens_forked>, board{}, std::size_t{0},
                                  std::size_t{n});
           }},
          {"queens_all",
           [&on](std::uint64_t n) {
             return lf::sync_wait(on, queens<queens_max>, board{}, std::size_t{0}, std::size_t{n});
           }},
          {"sort",
           [&on](std::uint64_t n) {
             return sorted(n, [&on](std::uint32_t* first, std::uint32_t* last) {
               lf::sync_wait(on, sort, first, last);
             });
           }},
          {"product",
           [&on](std::uint64_t n) {
             return product(n, [&on, n](const float* a, const float* b, float* c) {
               lf::sync_wait(on, multiply, a, b, c, std::size_t{n}, std::size_t{n});
             });
           }},
          {"deep", [&on](std::uint64_t n) { return lf::sync_wait(on, deep, n); }}};
}

}  // namespace

std::vector<flavour> start_side(unsigned workers) {
  static lf::lazy_pool lazy(workers);
  return {{"lazy", cases_on(lazy)}};
}

}  // namespace bwos::bench
