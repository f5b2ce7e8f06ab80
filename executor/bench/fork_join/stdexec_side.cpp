// SPDX-License-Identifier: Apache-2.0
#include <exec/async_scope.hpp>
#include <exec/static_thread_pool.hpp>
#include <stdexec/execution.hpp>

#include <numeric>
#include <optional>
#include <tuple>

#include "cases.hpp"
#include "side.hpp"

namespace bwos::bench {
namespace {

std::optional<exec::static_thread_pool> on;

/// What has forked goes on where the last child has ended; a scheduler of its own would be another
/// way through the pool's queues.
struct without_affinity {
  using start_scheduler_type = stdexec::inline_scheduler;
};
template <class T>
using task = stdexec::task<T, without_affinity>;

template <class T>
auto fork(task<T> child) {
  return stdexec::starts_on(on->get_scheduler(), std::move(child));
}

/// The sum of `child(i)` for each i below `count`: when_all() takes as many as its type says.
template <class Child>
task<std::uint64_t> sum_of(std::uint64_t count, Child child) {
  std::vector<std::uint64_t> sums(count);
  exec::async_scope scope;
  for (std::uint64_t i = 0; i < count; ++i) {
    const auto keep = [&sums, i](std::uint64_t sum) noexcept { sums[i] = sum; };
    scope.spawn(fork(child(i)) | stdexec::then(keep));
  }
  co_await scope.on_empty();
  co_return std::accumulate(sums.begin(), sums.end(), std::uint64_t{0});
}

task<std::uint64_t> fib(std::uint64_t n) {
  if (n < 2) co_return n;
  auto [a, b] = co_await stdexec::when_all(fork(fib(n - 1)), fib(n - 2));
  co_return a + b;
}

task<std::uint64_t> skynet(std::uint64_t number, std::uint64_t leaves) {
  if (leaves == 1) co_return number;
  const std::uint64_t part = leaves / skynet_children;
  const auto child = [=](std::uint64_t i) { return skynet(number + i * part, part); };
  const auto each = co_await stdexec::when_all(
      fork(child(0)), fork(child(1)), fork(child(2)), fork(child(3)), fork(child(4)),
      fork(child(5)), fork(child(6)), fork(child(7)), fork(child(8)), child(9));
  co_return std::apply([](auto... sum) { return (sum + ...); }, each);
}

task<std::uint64_t> count(std::uint64_t node, std::uint64_t children) {
  if (children == 0) co_return 1;
  co_return 1 + co_await sum_of(children, [node](std::uint64_t index) {
    const std::uint64_t next = uts::child(node, index);
    return count(next, uts::children_of(next));
  });
}

template <std::size_t Forked>
task<std::uint64_t> queens(board placed, std::size_t row, std::size_t size) {
  if (row == size || row == Forked) co_return queens_from(placed, row, size);
  board columns;
  const std::size_t fitting = fitting_columns(placed, row, size, columns);
  co_return co_await sum_of(fitting, [&](std::uint64_t i) {
    placed[row] = columns[i];
    return queens<Forked>(placed, row + 1, size);
  });
}

task<void> sort(std::uint32_t* first, std::uint32_t* last) {
  if (static_cast<std::size_t>(last - first) <= sort_leaf) {
    std::sort(first, last);
    co_return;
  }
  std::uint32_t* const middle = first + (last - first) / 2;
  co_await stdexec::when_all(fork(sort(first, middle)), sort(middle, last));
  std::inplace_merge(first, middle, last);
}

task<void> multiply(const float* a, const float* b, float* c, std::size_t size,
                    std::size_t stride) {
  if (size <= product_leaf) {
    multiply_leaf(a, b, c, size, stride);
    co_return;
  }
  const std::size_t half = size / 2;
  const std::size_t down = half * stride;
  for (const std::size_t k : {std::size_t{0}, half}) {
    co_await stdexec::when_all(
        fork(multiply(a + k, b + k * stride, c, half, stride)),
        fork(multiply(a + k, b + k * stride + half, c + half, half, stride)),
        fork(multiply(a + down + k, b + k * stride, c + down, half, stride)),
        multiply(a + down + k, b + k * stride + half, c + down + half, half, stride));
  }
}

task<std::uint64_t> deep(std::uint64_t levels) {
  if (levels == 0) co_return 0;
  co_return 1 + co_await deep(levels - 1);
}

}  // namespace

std::vector<flavour> start_side(unsigned workers) {
  on.emplace(workers);
  const auto run = [](task<std::uint64_t> work) {
    return std::get<0>(*stdexec::sync_wait(fork(std::move(work))));
  };
  return {{"tasks",
           {{"fib", [=](std::uint64_t n) { return run(fib(n)); }},
            {"skynet", [=](std::uint64_t n) { return run(skynet(0, skynet_leaves(n))); }},
            {"uts", [=](std::uint64_t n) { return run(count(uts::mix(n), uts::roots)); }},
            {"queens", [=](std::uint64_t n) { return run(queens<queens_forked>({}, 0, n)); }},
            {"queens_all", [=](std::uint64_t n) { return run(queens<queens_max>({}, 0, n)); }},
            {"sort",
             [](std::uint64_t n) {
               return sorted(
                   n, [](auto* first, auto* last) { stdexec::sync_wait(fork(sort(first, last))); });
             }},
            {"product",
             [](std::uint64_t n) {
               return product(n, [n](const float* a, const float* b, float* c) {
                 stdexec::sync_wait(fork(multiply(a, b, c, n, n)));
               });
             }},
            {"deep", [=](std::uint64_t n) { return run(deep(n)); }}}}};
}

}  // namespace bwos::bench
