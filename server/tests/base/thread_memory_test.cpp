// SPDX-License-Identifier: Apache-2.0
#include "base/thread_memory.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

namespace bwos::server {
namespace {

using memory = thread_memory;

/// On a thread of its own, whose lists are empty.
template <class Body>
void on_a_thread(Body body) {
  std::thread(body).join();
}

class thread_memory_lists : public testing::Test {
 protected:
  void SetUp() override {
    if (!memory::is_on) GTEST_SKIP() << "off under this sanitizer";
  }
};

TEST(thread_memory, blocks_hold_what_was_asked_for_and_do_not_overlap) {
  for (int round = 0; round < 2; ++round) {  // the second has what the first has freed
    std::vector<unsigned char*> blocks;
    for (std::size_t size = 1; size <= memory::block_bytes_max + 100; ++size) {
      auto* const made = static_cast<unsigned char*>(memory::allocate(size));
      ASSERT_NE(made, nullptr);
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(made) % alignof(std::max_align_t), 0U);
      std::memset(made, static_cast<int>(size % 251), size);
      blocks.push_back(made);
    }
    for (std::size_t size = 1; size <= blocks.size(); ++size) {
      unsigned char* const made = blocks[size - 1];
      for (std::size_t i = 0; i < size; ++i) ASSERT_EQ(made[i], size % 251) << size;
      size % 2 == 0 ? memory::deallocate(made) : memory::deallocate(made, size);
    }
  }
}

TEST_F(thread_memory_lists, a_freed_block_serves_the_next_allocation_of_its_class) {
  on_a_thread([] {
    void* const first = memory::allocate(100);
    memory::deallocate(first, 100);
    EXPECT_GE(memory::kept(), 100U);
    void* const second = memory::allocate(97);
    EXPECT_EQ(second, first);
    EXPECT_EQ(memory::kept(), 0U);
    memory::deallocate(second);
    EXPECT_EQ(memory::allocate(100), first) << "its size was not told";
    memory::deallocate(first, 100);
  });
}

TEST_F(thread_memory_lists, what_the_c_library_has_allocated_is_kept_too) {
  on_a_thread([] {
    void* const first = std::calloc(1, 200);
    memory::deallocate(first);
    void* const second = memory::allocate(200);
    EXPECT_EQ(second, first);
    memory::deallocate(second, 200);
    memory::deallocate(std::malloc(100'000));
    memory::deallocate(nullptr);
    EXPECT_LT(memory::kept(), 1000U);
  });
}

TEST_F(thread_memory_lists, a_thread_keeps_no_more_than_its_limit) {
  on_a_thread([] {
    constexpr std::size_t size = 504;
    std::vector<void*> blocks(3 * memory::kept_max / size);
    for (void*& each : blocks) each = memory::allocate(size);
    std::size_t most = 0;
    for (void* const each : blocks) {
      memory::deallocate(each, size);
      ASSERT_LE(memory::kept(), memory::kept_max);
      most = std::max(most, memory::kept());
    }
    EXPECT_GT(most, memory::kept_max - 2 * size);
    memory::give_back();
    EXPECT_EQ(memory::kept(), 0U);
  });
}

TEST_F(thread_memory_lists, full_of_one_size_they_make_room_for_another) {
  on_a_thread([] {
    std::vector<void*> blocks(memory::kept_max / 104);
    void* const other = memory::allocate(600);
    for (void*& each : blocks) each = memory::allocate(104);
    for (void* const each : blocks) memory::deallocate(each, 104);
    EXPECT_GT(memory::kept(), memory::kept_max - 104);
    memory::deallocate(other, 600);
    EXPECT_EQ(memory::allocate(600), other);
    memory::deallocate(other, 600);
  });
}

TEST_F(thread_memory_lists, the_thread_that_frees_keeps_and_gives_back_when_it_ends) {
  void* const made = memory::allocate(300);
  const std::size_t before = memory::kept();
  on_a_thread([&] {
    memory::deallocate(made, 300);
    EXPECT_GE(memory::kept(), 300U);
  });
  EXPECT_EQ(memory::kept(), before);
}

/// Of a thread, destroyed behind the lists, as it is constructed before them.
struct frees_late {
  void* memory = nullptr;
  ~frees_late() {
    thread_memory::deallocate(memory, 64);
    EXPECT_EQ(thread_memory::kept(), 0U);
  }
};

TEST(thread_memory, what_is_freed_behind_the_end_of_the_lists_is_not_kept) {
  on_a_thread([] {
    thread_local frees_late late;
    late.memory = memory::allocate(64);
    memory::deallocate(memory::allocate(64), 64);
  });
}

struct object : in_thread_memory {
  explicit object(bool fails) {
    if (fails) throw 1;
  }
  std::uint64_t words[20]{};
};

TEST_F(thread_memory_lists, objects_come_from_them_and_go_back) {
  on_a_thread([] {
    const object* const first = new object(false);
    delete first;
    EXPECT_GE(memory::kept(), sizeof(object));
    EXPECT_THROW(std::make_unique<object>(true), int);
    const auto second = std::make_unique<object>(false);
    EXPECT_EQ(second.get(), first);
  });
}

}  // namespace
}  // namespace bwos::server
