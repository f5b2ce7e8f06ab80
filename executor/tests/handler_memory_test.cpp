// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <bwos/asio.hpp>
#include <bwos/handler_memory.hpp>
#include <cstring>
#include <set>
#include <thread>
#include <vector>

#include "counting_new.hpp"

namespace {

bwos::pool owner({.workers = 0});  // NOLINT: whose handlers these would be

void* allocate(std::size_t size) {
  return bwos::allocate_handler(size, owner);
}

constexpr std::size_t sizes[] = {1, 31, 32, 33, 64, 65, 128, 129, 256, 257, 4096};

TEST(handler_memory, blocks_hold_what_was_asked_for_and_do_not_overlap) {
  for (int lap = 0; lap < 3; ++lap) {  // fresh ones, then kept ones
    std::vector<std::pair<unsigned char*, std::size_t>> blocks;
    for (int i = 0; i < 50; ++i) {
      for (const std::size_t size : sizes) {
        auto* const memory = static_cast<unsigned char*>(allocate(size));
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
  bwos::deallocate_handler(allocate(32), 32);  // the first look begins the cache
  void* const first = allocate(40);
  bwos::deallocate_handler(first, 40);
  const std::size_t before = counting_new::allocations();
  void* const second = allocate(64);
  EXPECT_EQ(second, first);
  EXPECT_EQ(counting_new::allocations(), before);
  bwos::deallocate_handler(second, 64);
}

TEST(handler_memory, a_thread_keeps_no_more_than_its_limit) {
  std::thread fresh([] {
    constexpr std::size_t count = bwos::handler_memory_kept_max / 64;
    std::vector<void*> blocks(3 * count);
    bwos::deallocate_handler(allocate(64), 64);
    for (void*& block : blocks) block = allocate(64);
    for (void* const block : blocks) bwos::deallocate_handler(block, 64);
    const std::size_t before = counting_new::allocations();
    for (void*& block : blocks) block = allocate(64);
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

/// Posts from here, where nothing is ever freed, and waits until all of it has run.
void post_burst(bwos::thread_pool& pool, int count) {
  std::atomic<int> left{count};
  for (int i = 0; i < count; ++i) asio::post(pool, [&left] { --left; });
  while (left.load() != 0) std::this_thread::yield();
}

TEST(handler_memory, what_workers_free_serves_the_threads_outside) {
  bwos::thread_pool pool(2);
  constexpr int burst = 1000;
  constexpr int bursts = 100;
  for (int i = 0; i < bursts; ++i) post_burst(pool, burst);  // fills what the workers keep
  const std::size_t before = counting_new::allocations();
  for (int i = 0; i < bursts; ++i) post_burst(pool, burst);
  EXPECT_LT(counting_new::allocations() - before, std::size_t{burst} * bursts / 10);
}

TEST(handler_memory, a_pool_keeps_no_more_than_its_limit) {
  constexpr std::size_t count = 4 * bwos::handler_memory_kept_max / 32;
  bwos::thread_pool pool(1);
  const auto all_at_once = [&pool] {
    std::atomic<bool> posted{false};
    std::atomic<std::size_t> left{count};
    asio::post(pool, [&posted] {
      while (!posted) std::this_thread::yield();
    });
    for (std::size_t i = 0; i < count; ++i) asio::post(pool, [&left] { --left; });
    posted = true;
    while (left != 0) std::this_thread::yield();
  };
  all_at_once();
  const std::size_t before = counting_new::allocations();
  all_at_once();
  // Of four times its limit the worker has kept one, the pool another, and only that one is for us.
  EXPECT_GE(counting_new::allocations() - before, count / 2);
}

}  // namespace
