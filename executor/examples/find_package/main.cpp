// SPDX-License-Identifier: Apache-2.0
// Asio on a work-stealing pool: each worker has a queue of its own, idle ones take from the busy.
#include <atomic>
#include <cstdio>

#include <bwos/asio.hpp>

asio::awaitable<void> say(std::atomic<int>& said, const char* word) {
  std::puts(word);
  ++said;
  co_return;
}

int main() {
  std::atomic<int> said = 0;
  bwos::thread_pool pool(2);
  asio::co_spawn(pool, say(said, "hello"), asio::detached);
  asio::post(pool, [&said] { ++said; });
  pool.join();  // returns when all of it has run
  return said == 2 ? 0 : 1;
}
