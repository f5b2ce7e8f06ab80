// SPDX-License-Identifier: Apache-2.0
#include <taskflow/taskflow.hpp>

#include "cases.hpp"
#include "side.hpp"

namespace bwos::bench {
namespace {

std::uint64_t fib(std::uint64_t n, tf::Runtime& here) {
  if (n < 2) return n;
  std::uint64_t a = 0;
  std::uint64_t b = 0;
  here.silent_async([&a, n](tf::Runtime& there) { a = fib(n - 1, there); });
  b = fib(n - 2, here);
  here.corun();
  return a + b;
}

std::uint64_t skynet(std::uint64_t number, std::uint64_t leaves, tf::Runtime& here) {
  if (leaves == 1) return number;
  const std::uint64_t part = leaves / skynet_children;
  std::array<std::uint64_t, skynet_children> sums{};
  for (std::uint64_t i = 0; i < skynet_children; ++i) {
    here.silent_async([&sums, i, number, part](tf::Runtime& there) {
      sums[i] = skynet(number + i * part, part, there);
    });
  }
  here.corun();
  std::uint64_t sum = 0;
  for (const std::uint64_t each : sums) sum += each;
  return sum;
}

}  // namespace

std::vector<flavour> start_side(unsigned workers) {
  static tf::Executor on(workers);
  const auto run = [](auto work) {
    std::uint64_t answer = 0;
    tf::Taskflow flow;
    flow.emplace([&](tf::Runtime& here) { answer = work(here); });
    on.run(flow).wait();
    return answer;
  };
  return {{"runtime",
           {{"fib",
             [=](std::uint64_t n) { return run([n](tf::Runtime& here) { return fib(n, here); }); }},
            {"skynet", [=](std::uint64_t n) {
               std::uint64_t leaves = 1;
               for (std::uint64_t i = 0; i < n; ++i) leaves *= skynet_children;
               return run([leaves](tf::Runtime& here) { return skynet(0, leaves, here); });
             }}}}};
}

}  // namespace bwos::bench
