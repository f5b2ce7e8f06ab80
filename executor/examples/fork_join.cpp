// SPDX-License-Identifier: Apache-2.0
// Fork-join of coroutines. executor/README.md shows what stands between the marks.
// [readme]
#include <bwos/fork_join.hpp>
#include <bwos/sync_wait.hpp>
#include <cstdio>

bwos::fork_task<long> fib(long n) {
  if (n < 2) co_return n;
  auto [a, b] = co_await bwos::fork_join(fib(n - 1), fib(n - 2));
  co_return a + b;
}

int main() {
  bwos::pool pool;
  std::printf("%ld\n", bwos::sync_wait(pool, fib(30)));
}
// [readme]
