// SPDX-License-Identifier: Apache-2.0
// That memory goes back to the system: what is free, and between blocks that are not.
#include "ops/memory_return.hpp"

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <ctime>
#include <fstream>
#include <limits>
#include <memory>
#include <vector>

namespace bwos::server::test {
namespace {

#if !defined(__GLIBC__) || defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool is_ours = false;  // the C library's memory
#else
constexpr bool is_ours = true;
#endif

constexpr std::size_t mib = 1024 * 1024;

std::size_t resident() {
  std::ifstream said("/proc/self/statm");
  std::size_t all = 0;
  std::size_t pages = 0;
  said >> all >> pages;
  return pages * 4096;
}

/// Blocks of 16 KiB, 128 MiB of them, of which every 64th is left: the heap cannot shrink.
std::vector<std::unique_ptr<std::array<char, 16 * 1024>>> fragmented() {
  std::vector<std::unique_ptr<std::array<char, 16 * 1024>>> blocks(8192);
  for (auto& each : blocks) {
    each = std::make_unique<std::array<char, 16 * 1024>>();
    each->fill('x');
  }
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    if (i % 64 != 0) blocks[i].reset();
  }
  return blocks;
}

/// So much of one processor's time that a burst is not over.
void compute() {
  const std::clock_t end = std::clock() + CLOCKS_PER_SEC / 2;
  while (std::clock() < end) {
  }
}

constexpr auto burst = memory_return::burst_interval + std::chrono::milliseconds(1);

TEST(memory_return, waits_until_a_burst_is_over) {
  if (!is_ours) GTEST_SKIP() << "another allocator";
  memory_return tested(1, std::numeric_limits<std::size_t>::max());
  auto now = memory_return::clock::now();
  tested.look(now);
  const auto blocks = fragmented();
  compute();
  const std::size_t before = resident();
  tested.look(now += burst);
  EXPECT_GT(resident(), before - 16 * mib);
  tested.look(now += memory_return::interval);
  EXPECT_GT(resident(), before - 16 * mib) << "the next two seconds are not over";
  tested.look(now += burst);
  EXPECT_LT(resident(), before - 64 * mib);
}

TEST(memory_return, waits_for_nothing_while_more_is_resident_than_there_may_be) {
  if (!is_ours) GTEST_SKIP() << "another allocator";
  memory_return tested(1, 32 * mib);
  auto now = memory_return::clock::now();
  tested.look(now);
  const auto blocks = fragmented();
  compute();
  const std::size_t before = resident();
  tested.look(now += std::chrono::milliseconds(1));
  EXPECT_GT(resident(), before - 16 * mib) << "it looks now and then";
  tested.look(now += memory_return::interval);
  EXPECT_LT(resident(), before - 64 * mib);
}

}  // namespace
}  // namespace bwos::server::test
