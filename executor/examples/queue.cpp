// SPDX-License-Identifier: Apache-2.0
// A queue by itself. executor/README.md shows what stands between the marks.
// [readme]
#include <bwos/queue/fifo_queue.hpp>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <thread>

int main() {
  using queue = bwos::fifo_queue<std::uint64_t, 1024, 8>;  // 8 blocks of 1,024 entries
  const auto shared = std::make_unique<queue>();
  queue::owner& owner = shared->as_owner();       // one thread's
  const queue::thief thief = shared->as_thief();  // any number of threads'

  std::uint64_t stolen = 0;
  for (std::uint64_t i = 0; i < 5000; ++i) owner.put(i);
  std::thread other([&] {
    std::uint64_t taken[16];
    for (std::size_t block = 0; block < queue::block_count; ++block) {
      stolen += thief.steal(block, taken, 16).count;
    }
  });
  std::uint64_t got = 0;
  for (std::uint64_t entry = 0; owner.get(entry); ++got) {
  }
  other.join();
  std::printf("%d\n", static_cast<int>(got + stolen));
}
// [readme]
