// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include <bwos/queue/steal.hpp>
#include "base/random.hpp"

// What tests of queues do again and again. The queues hold std::uintptr_t.

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define BWOS_TEST_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer) || __has_feature(address_sanitizer)
#define BWOS_TEST_SANITIZED 1
#endif
#endif

namespace bwos::test {

using value = std::uintptr_t;
inline constexpr std::uint32_t round_before_wrap = 0xffff'fffdU;  // 2^32 - 3

#ifdef BWOS_TEST_SANITIZED
inline constexpr bool sanitized = true;
#else
inline constexpr bool sanitized = false;
#endif

/// Whether the lists hold 1 to `last`, each once.
inline void expect_each_once(const std::vector<std::vector<value>>& lists, value last) {
  std::vector<unsigned> seen(last + 1, 0);
  for (const auto& list : lists) {
    for (const value v : list) {
      ASSERT_TRUE(v >= 1 && v <= last) << "never put: " << v;
      ++seen[v];
    }
  }
  for (value v = 1; v <= last; ++v) ASSERT_EQ(seen[v], 1U) << "value " << v << " of " << last;
}

/// Puts until full or beyond `max`; returns how many, with values from `first` on.
template <class Owner>
value fill(Owner& owner, value first, value max) {
  value next = first;
  while (next - first <= max && owner.put(next)) ++next;
  return next - first;
}

/// All that a thief finds by looking at every block once, each block's in order.
template <class Queue>
std::vector<value> steal_everywhere(Queue& queue) {
  std::vector<value> stolen;
  std::vector<value> batch(Queue::block_entries);
  const auto thief = queue.as_thief();
  for (std::size_t i = 0; i < Queue::block_count; ++i) {
    while (thief.sample(i)) {
      const steal_result got = thief.steal(i, batch.data(), batch.size());
      if (got.status != steal_status::ok) {
        ADD_FAILURE() << "sampled alone, but the steal failed";
        return stolen;
      }
      stolen.insert(stolen.end(), batch.data(), batch.data() + got.count);
    }
  }
  return stolen;
}

inline bool contains(const block_range& range, std::size_t block) {
  const std::size_t distance =
      block >= range.first ? block - range.first : block + range.ring - range.first;
  return distance < range.count;
}

/// What a worker that is about to sleep does: whether any block in use has something to steal.
template <class Thief>
bool finds_something(const Thief& thief) {
  const block_range range = thief.in_use();
  for (std::size_t i = 0; i < range.count; ++i) {
    if (thief.sample(range[i])) return true;
  }
  return false;
}

/// I7, at rest: nothing to steal lies outside the range.
template <class Queue>
void expect_range_covers(const typename Queue::thief& thief) {
  const block_range range = thief.in_use();
  ASSERT_EQ(range.ring, Queue::block_count);
  ASSERT_LT(range.first, Queue::block_count);
  ASSERT_TRUE(range.count >= 1 && range.count <= Queue::block_count) << range.count;
  std::size_t in_range = 0;
  for (std::size_t block = 0; block < Queue::block_count; ++block) {
    in_range += contains(range, block) ? 1 : 0;
    ASSERT_TRUE(contains(range, block) || !thief.sample(block))
        << "block " << block << " outside " << range.count << " from " << range.first << " on";
  }
  ASSERT_EQ(in_range, range.count);
}

/// A steal of 1 to max entries of a random block; appends to `to`. The entries of one steal were
/// put in a row.
template <class Queue>
void steal_at_random(const typename Queue::thief& thief, random_source& random,
                     std::vector<value>& to) {
  const std::size_t block = random.below(Queue::block_count);
  if (!thief.sample(block)) return;
  value batch[Queue::block_entries];
  const std::size_t max = 1 + random.below(Queue::block_entries);
  const steal_result got = thief.steal(block, batch, max);
  ASSERT_EQ(got.count != 0, got.status == steal_status::ok);
  ASSERT_LE(got.count, max);
  for (std::size_t i = 1; i < got.count; ++i) ASSERT_EQ(batch[i], batch[0] + i);
  to.insert(to.end(), batch, batch + got.count);
}

}  // namespace bwos::test
