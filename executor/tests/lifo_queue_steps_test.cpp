// SPDX-License-Identifier: Apache-2.0
// The LIFO queue with a thief that is stopped between its claim and the count of it: the atomic of
// steps/bwos/base/atomic.hpp calls the owner there.
#include <gtest/gtest.h>

#include <array>

#include <bwos/queue/lifo_queue.hpp>
#include "queue_support.hpp"

namespace bwos::test {
namespace {

using queue_type = lifo_queue<value, 2, 2>;
queue_type* queue = nullptr;
std::vector<bool> answers;

// L4. Without it the owner would overwrite what the thief is about to read.
TEST(lifo_queue_steps, a_full_queue_does_not_wait_for_a_thief_that_reads) {
  queue_type here;
  queue = &here;
  answers.clear();
  ASSERT_EQ(fill(here.as_owner(), 1, 4), 4U);
  std::array<value, 2> stolen{};
  after_each_write = [] {
    after_each_write = nullptr;  // the claim; the count is still to come
    answers.push_back(queue->as_owner().put(5));
    answers.push_back(queue->as_owner().put(5));
  };
  const steal_result got = here.as_thief().steal(stolen.data(), 2);
  after_each_write = nullptr;
  EXPECT_EQ(answers, std::vector<bool>({false, false}));
  ASSERT_EQ(got.count, 2U);
  EXPECT_EQ(stolen[0], 1U);
  EXPECT_EQ(stolen[1], 2U);
  EXPECT_TRUE(here.as_owner().put(5));
}

// L6: the owner finds nothing below, although the thief has not read it yet.
TEST(lifo_queue_steps, what_a_thief_has_claimed_is_not_got) {
  queue_type here;
  queue = &here;
  answers.clear();
  ASSERT_EQ(fill(here.as_owner(), 1, 2), 3U);
  std::array<value, 2> stolen{};
  after_each_write = [] {
    after_each_write = nullptr;
    value v = 0;
    answers.push_back(queue->as_owner().get(v) && v == 3);
    answers.push_back(queue->as_owner().get(v));
    answers.push_back(queue->as_owner().put(4));
    answers.push_back(queue->as_owner().get(v) && v == 4);
  };
  ASSERT_EQ(here.as_thief().steal(stolen.data(), 2).count, 2U);
  after_each_write = nullptr;
  EXPECT_EQ(answers, std::vector<bool>({true, false, true, true}));
  EXPECT_TRUE(here.as_owner().empty());
}

}  // namespace
}  // namespace bwos::test
