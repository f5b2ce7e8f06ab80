// SPDX-License-Identifier: Apache-2.0
#include "net/kept_buffers.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <set>
#include <thread>
#include <utility>
#include <vector>

namespace bwos::server {
namespace {

constexpr std::size_t kib = 1024;
constexpr std::size_t mib = 1024 * kib;

std::int64_t kept_bytes(const memory_budget& all) {
  return all.total().bytes[static_cast<std::size_t>(memory::buffers)];
}

/// Each on a thread of its own, which keeps nothing yet.
template <class Body>
void on_a_new_thread(Body body) {
  std::thread(body).join();
}

TEST(kept_buffers, have_few_sizes) {
  EXPECT_EQ(buffer_bytes(0), 64U);
  EXPECT_EQ(buffer_bytes(65), 128U);
  EXPECT_EQ(buffer_bytes(32 * kib), 32 * kib);
  EXPECT_EQ(buffer_bytes(32 * kib + 1), 36 * kib);
  EXPECT_EQ(buffer_bytes(36 * kib + 1), 68 * kib);
  EXPECT_EQ(buffer_bytes(256 * kib + 4 * kib), 260 * kib);
  EXPECT_EQ(buffer_bytes(256 * kib + 4 * kib + 1), 516 * kib);
  for (std::size_t bytes = 0; bytes < mib; bytes += 511) {
    ASSERT_GE(buffer_bytes(bytes), bytes);
    ASSERT_EQ(buffer_bytes(buffer_bytes(bytes)), buffer_bytes(bytes));
  }
}

TEST(kept_buffers, give_back_the_newest_that_fits) {
  on_a_new_thread([] {
    memory_budget all;
    std::vector<byte_buffer> taken;
    for (const std::size_t bytes : {64 * kib, 256 * kib, 64 * kib, 256 * kib}) {
      taken.push_back(take_buffer(bytes, all));
      EXPECT_EQ(taken.back().capacity(), buffer_bytes(bytes));
    }
    const char* const older = taken[0].data();
    const char* const newer = taken[2].data();
    for (byte_buffer& each : taken) {
      each.append("used");
      put_away(std::move(each), all);
    }
    const byte_buffer first = take_buffer(60 * kib, all);
    EXPECT_EQ(first.data(), newer);
    EXPECT_TRUE(first.empty());
    EXPECT_EQ(take_buffer(68 * kib, all).data(), older);
    EXPECT_EQ(take_buffer(100, all).capacity(), 128U);
  });
}

TEST(kept_buffers, are_charged) {
  on_a_new_thread([] {
    memory_budget all;
    byte_buffer one = take_buffer(256 * kib, all);
    byte_buffer other = take_buffer(64 * kib, all);
    EXPECT_EQ(kept_bytes(all), 0);
    put_away(std::move(one), all);
    EXPECT_EQ(kept_bytes(all), static_cast<std::int64_t>(260 * kib));
    put_away(std::move(other), all);
    EXPECT_EQ(kept_bytes(all), static_cast<std::int64_t>(328 * kib));
    one = take_buffer(256 * kib, all);
    EXPECT_EQ(kept_bytes(all), static_cast<std::int64_t>(68 * kib));
  });
}

TEST(kept_buffers, go_to_the_thread_that_needs_them) {
  memory_budget all;
  constexpr int many = 30;
  std::set<const char*> given;
  on_a_new_thread([&] {
    std::vector<byte_buffer> taken;
    for (int i = 0; i < many; ++i) taken.push_back(take_buffer(256 * kib, all));
    for (byte_buffer& each : taken) {
      given.insert(each.data());
      put_away(std::move(each), all);
    }
    EXPECT_EQ(kept_bytes(all), static_cast<std::int64_t>(many * 260 * kib));
    on_a_new_thread([&] {
      for (std::size_t i = 0; i < many - kept_bytes_max / (260 * kib); ++i) {
        taken.push_back(take_buffer(256 * kib, all));
        EXPECT_TRUE(given.contains(taken.back().data())) << i;
      }
      EXPECT_EQ(kept_bytes(all), static_cast<std::int64_t>(15 * 260 * kib));
      EXPECT_EQ(take_buffer(256 * kib, all).capacity(), 260 * kib);
    });
  });
}

TEST(kept_buffers, are_no_more_than_allowed) {
  on_a_new_thread([] {
    constexpr std::size_t most = kept_bytes_max + memory_budget::spare_bytes_max;
    memory_budget all;
    for (const std::size_t bytes : {32 * kib, 256 * kib, mib, 2 * kept_bytes_max}) {
      std::vector<byte_buffer> taken;
      for (int i = 0; i < 100; ++i) taken.push_back(take_buffer(bytes, all));
      for (byte_buffer& each : taken) {
        put_away(std::move(each), all);
        ASSERT_LE(kept_bytes(all), static_cast<std::int64_t>(most));
      }
    }
    EXPECT_EQ(kept_bytes(all), static_cast<std::int64_t>((3 + 7) * (mib + 4 * kib)));  // the latest
  });
}

TEST(kept_buffers, are_freed_while_memory_is_tight) {
  on_a_new_thread([] {
    memory_budget all(16 * mib);
    byte_buffer one = take_buffer(256 * kib, all);
    byte_buffer other = take_buffer(256 * kib, all);
    put_away(std::move(one), all);
    all.put_spare(take_buffer(mib, all));
    EXPECT_GT(kept_bytes(all), static_cast<std::int64_t>(mib));
    EXPECT_TRUE(all.take(memory::bodies, 13 * mib));
    put_away(std::move(other), all);
    EXPECT_EQ(kept_bytes(all), 0);
    all.give_back(memory::bodies, 13 * mib);
  });
}

TEST(kept_buffers, do_not_have_small_ones) {
  on_a_new_thread([] {
    memory_budget all;
    put_away(take_buffer(16 * kib, all), all);
    put_away(byte_buffer(), all);
    EXPECT_EQ(kept_bytes(all), 0);
  });
}

}  // namespace
}  // namespace bwos::server
