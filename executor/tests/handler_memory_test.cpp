// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <array>
#include <bwos/asio.hpp>
#include <bwos/handler_memory.hpp>
#include <cstring>
#include <set>
#include <thread>
#include <vector>

#include "counting_new.hpp"

namespace {

constexpr std::size_t sizes[] = {1, 31, 32, 33, 64, 65, 128, 129, 256, 257, 4096};

TEST(handler_memory, blocks_hold_what_was_asked_for_and_do_not_overlap) {
  for (int lap = 0; lap < 3; ++lap) {  // fresh ones, then kept ones
    std::vector<std::pair<unsigned char*, std::size_t>> blocks;
    for (int i = 0; i < 50; ++i) {
      for (const std::size_t size : sizes) {
        auto* const memory = static_cast<unsigned char*>(bwos::allocate_handler(size));
        EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory) % __STDCPP_DEFAULT_NEW_ALIGNMENT__, 0U);
        std::memset(memory, static_cast<int>(blocks.size() % 251), size);
        blocks.emplace_back(memory, size);
      }
    }
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      const auto [memory, size] = blocks[i];
      for (std::size_t at = 0; at < size; ++at) ASSERT_EQ(memory[at], i % 251);
      bwos::deallocate_handler(memory, size);
    }
  }
}

TEST(handler_memory, a_freed_block_serves_the_next_allocation_of_its_class) {
  bwos::deallocate_handler(bwos::allocate_handler(32), 32);  // the first look begins the cache
  void* const first = bwos::allocate_handler(40);
  bwos::deallocate_handler(first, 40);
  const std::size_t before = counting_new::allocations();
  void* const second = bwos::allocate_handler(64);
  EXPECT_EQ(second, first);
  EXPECT_EQ(counting_new::allocations(), before);
  bwos::deallocate_handler(second, 64);
}

TEST(handler_memory, a_thread_keeps_no_more_than_its_limit) {
  std::thread fresh([] {
    constexpr std::size_t count = bwos::handler_memory_kept_max / 64;
    std::vector<void*> blocks(3 * count);
    bwos::deallocate_handler(bwos::allocate_handler(64), 64);
    for (void*& block : blocks) block = bwos::allocate_handler(64);
    for (void* const block : blocks) bwos::deallocate_handler(block, 64);
    const std::size_t before = counting_new::allocations();
    for (void*& block : blocks) block = bwos::allocate_handler(64);
    EXPECT_EQ(counting_new::allocations() - before, 2 * count);
    for (void* const block : blocks) bwos::deallocate_handler(block, 64);
  });
  fresh.join();
}

/// Posts itself again until its count is used up.
struct chain {
  bwos::thread_pool::executor_type executor;
  std::size_t left;
  std::size_t& allocations_at_start;
  std::size_t& allocations_at_end;

  void operator()() const {
    if (left == 100'000) allocations_at_start = counting_new::allocations();
    if (left == 0) {
      allocations_at_end = counting_new::allocations();
      return;
    }
    asio::post(executor, chain{executor, left - 1, allocations_at_start, allocations_at_end});
  }
};

TEST(handler_memory, posting_allocates_nothing_once_warm) {
  bwos::thread_pool pool(1);
  std::size_t at_start = 0;
  std::size_t at_end = 1;
  asio::post(pool, chain{pool.executor(), 101'000, at_start, at_end});
  pool.join();
  EXPECT_EQ(at_end, at_start);
}

}  // namespace
