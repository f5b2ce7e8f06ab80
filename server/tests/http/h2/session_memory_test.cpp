// SPDX-License-Identifier: Apache-2.0
#include "http/h2/session_memory.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <deque>
#include <set>
#include <string>

namespace bwos::server::h2 {
namespace {

/// The blocks that nghttp2 1.52 makes for a session.
struct made {
  explicit made(session_memory& by)
      : session(by.allocate_zeroed(1, 2928)),
        tables{by.allocate(1024), by.allocate(1024)},
        streams(by.allocate_zeroed(256, 16)),
        buffer(by.reallocate(nullptr, 16394)) {
    std::memset(session, 1, 2928);
    std::memset(buffer, 2, 80);
  }
  /// As for a call, whose answer adds two entries to the first table.
  void use_for_a_call() const {
    std::memset(static_cast<char*>(tables[0]) + 1024 - 16, 1, 16);
    std::memset(tables[1], 1, 1024);
    std::memset(static_cast<char*>(streams) + 2528, 1, 16);
  }
  void use(int with) const {
    for (void* const each : tables) std::memset(each, with, 1024);
    std::memset(streams, with, 4096);
    std::memset(buffer, with, 16394);
  }
  void free(session_memory& by) const {
    for (void* const each : {tables[0], tables[1], streams, buffer, session}) by.deallocate(each);
  }

  void* session;
  std::array<void*, 2> tables;
  void* streams;
  void* buffer;
};

bool is_all(const void* memory, std::size_t size, char what) {
  return std::string(static_cast<const char*>(memory), size) == std::string(size, what);
}

std::ptrdiff_t resident_pages(const session_memory& of) {
  std::array<unsigned char, session_memory::region_bytes / session_memory::page> pages{};
  EXPECT_EQ(::mincore(const_cast<void*>(of.region()), session_memory::region_bytes, pages.data()),
            0);
  return std::ranges::count_if(pages, [](unsigned char each) { return (each & 1) != 0; });
}

/// More than are kept have ended: regions that are taken now, one after the other, are these, and
/// then some without pages.
void end_many() {
  std::deque<session_memory> many(2 * session_memory::kept_max);
  for (session_memory& each : many) {
    const made all(each);
    all.use(3);
    all.free(each);
  }
}

TEST(session_memory, blocks_do_not_overlap) {
  session_memory memory;
  const made all(memory);
  all.use(4);
  EXPECT_TRUE(is_all(all.session, 2928, 1));
  std::memset(all.session, 5, 2928);
  void* const more = memory.allocate(3000);  // beside them, or elsewhere
  std::memset(more, 6, 3000);
  for (void* const each : all.tables) EXPECT_TRUE(is_all(each, 1024, 4));
  EXPECT_TRUE(is_all(all.streams, 4096, 4));
  EXPECT_TRUE(is_all(all.buffer, 16394, 4));
  EXPECT_TRUE(is_all(all.session, 2928, 5));
  memory.deallocate(more);
  all.free(memory);
}

TEST(session_memory, what_is_wanted_zeroed_is_whoever_had_it_before) {
  end_many();
  std::deque<session_memory> next(3 * session_memory::kept_max);
  for (session_memory& each : next) {
    void* const large = each.allocate_zeroed(1, 2928);
    void* const middle = each.allocate_zeroed(256, 16);
    void* const small = each.allocate_zeroed(3, 50);
    EXPECT_TRUE(is_all(large, 2928, 0));
    EXPECT_TRUE(is_all(middle, 4096, 0));
    EXPECT_TRUE(is_all(small, 150, 0));
    std::memset(small, 7, 150);
    for (void* const block : {large, middle, small}) each.deallocate(block);
  }
}

TEST(session_memory, what_grows_keeps_what_it_holds) {
  session_memory memory;
  const made all(memory);
  void* const buffer = memory.reallocate(all.buffer, 40'000);
  EXPECT_TRUE(is_all(buffer, 80, 2));
  std::memset(buffer, 8, 40'000);
  void* const larger = memory.reallocate(buffer, 400'000);
  EXPECT_TRUE(is_all(larger, 40'000, 8));
  memory.deallocate(larger);
  EXPECT_TRUE(is_all(all.session, 2928, 1));
  for (void* const each : {all.tables[0], all.tables[1], all.streams, all.session}) {
    memory.deallocate(each);
  }
}

TEST(session_memory, a_table_that_was_outgrown_gives_its_page_back_and_is_told) {
  end_many();
  std::deque<session_memory> next(session_memory::kept_max + 1);
  session_memory& memory = next.back();
  const made all(memory);
  all.use(9);
  EXPECT_EQ(memory.grown_bytes(), 0U);
  void* const larger = memory.allocate_zeroed(1024, 16);
  memory.deallocate(all.streams);
  EXPECT_EQ(memory.grown_bytes(), 16'384U);
  const auto before = memory.region() == nullptr ? 0 : resident_pages(memory);
  memory.give_back();
  if (memory.region() != nullptr) {
    EXPECT_EQ(before - resident_pages(memory), 1);
  }
  for (void* const each : {all.tables[0], all.tables[1], all.buffer, all.session, larger}) {
    memory.deallocate(each);
  }
}

TEST(session_memory, many_have_each_their_own) {
  std::deque<session_memory> many(1000);
  std::set<const void*> regions;
  std::size_t with = 0;
  for (const session_memory& each : many) {
    with += each.region() != nullptr ? 1 : 0;
    if (each.region() != nullptr) regions.insert(each.region());
  }
  EXPECT_EQ(regions.size(), with);
}

TEST(session_memory, an_idle_session_takes_a_page_or_two_and_none_when_it_has_ended) {
  end_many();
  std::deque<session_memory> next(session_memory::kept_max + 1);
  if (next.back().region() == nullptr) GTEST_SKIP() << "off under this sanitizer, or other pages";
  EXPECT_EQ(resident_pages(next.back()), 0) << "it has not given its pages back";
  const made all(next.back());
  EXPECT_EQ(resident_pages(next.back()), 1);
  all.use_for_a_call();
  EXPECT_EQ(resident_pages(next.back()), 2);
  all.use(9);
  EXPECT_EQ(resident_pages(next.back()), 7);
  all.free(next.back());
}

TEST(session_memory, an_empty_table_of_streams_is_given_back_and_no_other) {
  end_many();
  std::deque<session_memory> next(session_memory::kept_max + 1);
  session_memory& memory = next.back();
  const made all(memory);
  all.use_for_a_call();
  memory.give_back();
  EXPECT_TRUE(is_all(static_cast<char*>(all.streams) + 2528, 16, 1)) << "it was not empty";
  std::memset(all.streams, 0, 4096);
  memory.give_back();
  if (memory.region() != nullptr) {
    EXPECT_EQ(resident_pages(memory), 1);
  }
  EXPECT_TRUE(is_all(all.session, 2928, 1));
  EXPECT_TRUE(is_all(all.tables[1], 1024, 1));
  EXPECT_TRUE(is_all(all.streams, 4096, 0));
  all.free(memory);
}

TEST(session_memory, too_much_is_refused) {
  session_memory memory;
  EXPECT_EQ(memory.allocate_zeroed(std::size_t{1} << 40, std::size_t{1} << 40), nullptr);
}

}  // namespace
}  // namespace bwos::server::h2
