// SPDX-License-Identifier: Apache-2.0
// The README's example is cut from here, between the two marks.
// [readme]
#include <bwos/asio.hpp>
#include <cstdio>

asio::awaitable<int> twice(int value) {
  co_await asio::post(asio::use_awaitable);  // goes on on a thread of the pool
  co_return 2 * value;
}

int main() {
  bwos::thread_pool pool(2);  // where you had asio::thread_pool

  asio::post(pool, [] { std::puts("posted"); });

  const auto strand = asio::make_strand(pool);  // one at a time, in order
  asio::post(strand, [] { std::puts("first"); });
  asio::post(strand, [] { std::puts("second"); });

  std::future<int> answer = asio::co_spawn(pool, twice(21), asio::use_future);
  std::printf("%d\n", answer.get());
  pool.join();  // returns when all of it has run
}
// [readme]
