// SPDX-License-Identifier: Apache-2.0
#include <bwos/queue/lifo_queue.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "base/random.hpp"
#include "queue_support.hpp"
#include "seed.hpp"
#include "stack_support.hpp"

namespace bwos::test {
namespace {

template <class Queue>
class lifo_contract : public testing::Test {
 protected:
  std::unique_ptr<Queue> queue_ = std::make_unique<Queue>(round_before_wrap);
  typename Queue::owner& owner_ = queue_->as_owner();
};
using shapes =
    testing::Types<lifo_queue<value, 1, 2>, lifo_queue<value, 1, 3>, lifo_queue<value, 2, 2>,
                   lifo_queue<value, 3, 5>, lifo_queue<value, 8, 4>, lifo_queue<value, 64, 2>,
                   lifo_queue<value, 64, 128>, lifo_queue<value, 1, 512>>;
struct shape_names {
  template <class Queue>
  static std::string GetName(int) {
    return std::to_string(Queue::block_count) + "x" + std::to_string(Queue::block_entries);
  }
};
TYPED_TEST_SUITE(lifo_contract, shapes, shape_names);

TYPED_TEST(lifo_contract, new_queue_is_empty) {
  value v = 0;
  EXPECT_TRUE(this->owner_.empty());
  EXPECT_FALSE(this->owner_.get(v));
  EXPECT_FALSE(this->owner_.share());
  EXPECT_FALSE(this->queue_->as_thief().sample());
  EXPECT_EQ(steal(*this->queue_, 1), list());
}

TYPED_TEST(lifo_contract, owner_gets_the_last_that_it_put) {
  for (value count = 1; count <= TypeParam::capacity; count += 1 + TypeParam::capacity / 64) {
    ASSERT_EQ(fill(this->owner_, 1, count - 1), count);
    ASSERT_FALSE(this->owner_.empty());
    ASSERT_EQ(drain(this->owner_), downwards(count, 1));
    ASSERT_TRUE(this->owner_.empty());
  }
}

TYPED_TEST(lifo_contract, full_queue_refuses_and_works_again_when_drained) {
  for (int lap = 0; lap < 6; ++lap) {
    ASSERT_EQ(fill(this->owner_, 1, 2 * TypeParam::capacity), TypeParam::capacity);
    ASSERT_FALSE(this->owner_.put(0));
    ASSERT_FALSE(this->owner_.put(0)) << "and again";
    ASSERT_EQ(drain(this->owner_), downwards(TypeParam::capacity, 1));
  }
}

TYPED_TEST(lifo_contract, full_queue_takes_more_when_thieves_have_emptied_its_lowest_block) {
  value next = 1 + fill(this->owner_, 1, 2 * TypeParam::capacity);
  value oldest = 1;
  for (std::size_t block = 0; block < 6 * TypeParam::block_count; ++block) {
    for (std::size_t i = 0; i < TypeParam::block_entries; ++i) {
      ASSERT_FALSE(this->owner_.put(next)) << "entry " << i << " of the block is not stolen";
      ASSERT_EQ(steal(*this->queue_, 1), list({oldest++}));
    }
    for (std::size_t i = 0; i < TypeParam::block_entries; ++i) {
      ASSERT_TRUE(this->owner_.put(next++));
    }
  }
  EXPECT_EQ(drain(this->owner_), downwards(next - 1, oldest));
}

TYPED_TEST(lifo_contract, after_share_a_thief_finds_every_entry_the_oldest_first) {
  for (value wanted = 1; wanted <= TypeParam::capacity; wanted += 1 + TypeParam::capacity / 64) {
    // What thieves have taken of a block is used again with all of it: that may be missing.
    const value count = fill(this->owner_, 1, wanted - 1);
    ASSERT_GT(count + TypeParam::block_entries, wanted);
    ASSERT_TRUE(this->owner_.share());
    ASSERT_FALSE(this->owner_.share()) << "the second share has nothing to give";
    ASSERT_FALSE(this->owner_.empty());
    list stolen = steal_all(*this->queue_);
    std::reverse(stolen.begin(), stolen.end());
    ASSERT_EQ(stolen, downwards(count, 1));
    ASSERT_TRUE(this->owner_.empty());
    ASSERT_EQ(drain(this->owner_), list());
  }
}

TYPED_TEST(lifo_contract, one_thread_in_random_order_agrees_with_a_deque) {
  random_source random(test::seed());
  std::deque<value> model;
  value next = 1;
  for (unsigned step = 0; step < 200'000 * test::times();) {
    // Runs of random length, so that the queue is now full, now empty.
    const bool putting = random.below(2) == 0;
    for (std::uint32_t run = random.below(2 * TypeParam::capacity) + 1; run > 0; --run, ++step) {
      value v = 0;
      switch (random.below(8)) {
        case 0:
          this->owner_.share();
          break;
        case 1:
          ASSERT_EQ(this->owner_.empty(), model.empty());
          break;
        case 2: {
          const list stolen = steal(*this->queue_, 1 + random.below(TypeParam::block_entries));
          ASSERT_LE(stolen.size(), model.size());
          ASSERT_TRUE(std::equal(stolen.begin(), stolen.end(), model.begin()))
              << "thieves take the oldest";
          model.erase(model.begin(), model.begin() + static_cast<std::ptrdiff_t>(stolen.size()));
          break;
        }
        default:
          if (putting == (random.below(4) != 0)) {
            if (this->owner_.put(next)) {
              model.push_back(next++);
            } else {
              ASSERT_GT(model.size(), TypeParam::capacity - 2 * TypeParam::block_entries);
            }
          } else {
            ASSERT_EQ(this->owner_.get(v), !model.empty());
            if (v == 0) break;
            ASSERT_EQ(v, model.back());
            model.pop_back();
          }
      }
    }
  }
  EXPECT_EQ(drain(this->owner_), list(model.rbegin(), model.rend()));
}

TYPED_TEST(lifo_contract, every_element_is_got_or_stolen_once) {
  const std::uint64_t seed = test::seed();
  for (unsigned run = 0; run < 8 * test::times(); ++run) {
    const unsigned thieves = run % 8;
    SCOPED_TRACE(testing::Message() << "seed " << seed << ", run " << run);
    stress(
        seed + run, *std::make_unique<TypeParam>(round_before_wrap), thieves,
        sanitized ? 30'000 : 200'000,
        [](auto& owner, random_source& random) {
          if (random.below(8) == 0) owner.share();
        },
        [](const auto&, random_source&) {});
    if (this->HasFatalFailure()) return;
  }
}

// A thief cannot call what is the owner's, nor the owner be copied into a second one.
template <class Side>
concept can_put = requires(Side& side, value v) { side.put(v); };
template <class Side>
concept can_get = requires(Side& side, value v) { side.get(v); };
template <class Side>
concept can_steal = requires(Side& side, value v) {
  { side.steal(&v, 1) } -> std::same_as<steal_result>;
  { side.sample() } -> std::same_as<bool>;
};
using owner_side = lifo_queue<value>::owner;
using thief_side = lifo_queue<value>::thief;
static_assert(can_put<owner_side> && can_get<owner_side> && !can_steal<owner_side>);
static_assert(!can_put<thief_side> && !can_get<thief_side> && can_steal<thief_side>);
static_assert(std::copyable<thief_side> && !std::movable<owner_side>);

TEST(lifo_queue, a_thief_gets_nothing_of_the_top_block) {
  lifo_queue<value, 4, 2> queue;
  auto& owner = queue.as_owner();
  ASSERT_EQ(fill(owner, 1, 3), 4U);
  EXPECT_FALSE(queue.as_thief().sample());
  EXPECT_EQ(steal(queue, 4), list()) << "full, but the owner has not left it";
  ASSERT_TRUE(owner.put(5));
  EXPECT_TRUE(queue.as_thief().sample());
  EXPECT_EQ(steal(queue, 3), list({1, 2, 3}));
  EXPECT_EQ(steal(queue, 3), list({4}));
  EXPECT_EQ(steal(queue, 3), list());
}

TEST(lifo_queue, share_lasts_until_the_owners_next_step) {
  lifo_queue<value, 4, 2> queue;
  auto& owner = queue.as_owner();
  ASSERT_TRUE(owner.put(1) && owner.put(2) && owner.share());
  EXPECT_EQ(steal(queue, 1), list({1}));
  ASSERT_TRUE(owner.put(3));
  EXPECT_EQ(steal(queue, 4), list()) << "taken back by the put";
  ASSERT_TRUE(owner.share());
  EXPECT_EQ(steal(queue, 1), list({2}));
  value v = 0;
  ASSERT_TRUE(owner.get(v));
  EXPECT_EQ(v, 3U);
  EXPECT_FALSE(owner.share());
  EXPECT_TRUE(owner.empty());
}

// L5. "Where all that is open is claimed, go on" loses a task here: the thief would stand at block
// 1 when 3 comes to lie in block 0.
TEST(lifo_queue, a_thief_stays_at_a_block_that_the_owner_has_taken) {
  lifo_queue<value, 1, 3> queue;
  auto& owner = queue.as_owner();
  value v = 0;
  ASSERT_TRUE(owner.put(1) && owner.put(2));
  ASSERT_TRUE(owner.get(v) && owner.get(v));
  EXPECT_EQ(v, 1U);
  EXPECT_EQ(steal(queue, 1), list()) << "the owner has taken block 0";
  ASSERT_TRUE(owner.put(3) && owner.put(4) && owner.put(5));
  EXPECT_EQ(steal(queue, 1), list({3}));
  EXPECT_EQ(drain(owner), list({5, 4}));
}

TEST(lifo_queue, a_block_taken_back_and_refilled_is_opened_where_thieves_had_come) {
  lifo_queue<value, 4, 2> queue;
  auto& owner = queue.as_owner();
  value v = 0;
  ASSERT_EQ(fill(owner, 1, 4), 5U);
  EXPECT_EQ(steal(queue, 2), list({1, 2}));
  ASSERT_TRUE(owner.get(v) && owner.get(v));
  EXPECT_EQ(v, 4U);
  ASSERT_TRUE(owner.put(6) && owner.put(7));
  EXPECT_EQ(steal(queue, 4), list({3, 6}));
  EXPECT_EQ(drain(owner), list({7}));
}

TEST(lifo_queue, thieves_that_reach_the_top_leave_nothing_below) {
  lifo_queue<value, 2, 3> queue;
  auto& owner = queue.as_owner();
  ASSERT_EQ(fill(owner, 1, 3), 4U);
  ASSERT_TRUE(owner.share());
  EXPECT_EQ(steal_all(queue), list({1, 2, 3, 4}));
  value v = 0;
  EXPECT_TRUE(owner.empty());
  EXPECT_FALSE(owner.get(v));
  EXPECT_FALSE(owner.get(v));
  ASSERT_TRUE(owner.put(5));
  EXPECT_EQ(drain(owner), list({5}));
}

TEST(lifo_queue, a_block_entered_again_in_its_round_needs_no_thief) {
  lifo_queue<value, 2, 2> queue;
  auto& owner = queue.as_owner();
  value v = 0;
  for (int time = 0; time < 10; ++time) {
    ASSERT_EQ(fill(owner, 1, 2), 3U);
    ASSERT_TRUE(owner.get(v) && owner.get(v));
    EXPECT_EQ(v, 2U);
    ASSERT_TRUE(owner.put(4) && owner.put(5));
    EXPECT_EQ(drain(owner), list({5, 4, 1}));
  }
}

TEST(lifo_queue, rounds_wrap) {
  lifo_queue<value, 2, 3> queue(round_before_wrap);
  auto& owner = queue.as_owner();
  value next = 1;
  value oldest = 1;
  for (std::size_t block = 0; block < 8 * 3; ++block) {
    SCOPED_TRACE(block);
    ASSERT_TRUE(owner.put(next) && owner.put(next + 1));
    next += 2;
    if (block % 2 == 0) continue;
    owner.share();
    ASSERT_EQ(steal(queue, 2), list({oldest, oldest + 1}));
    ASSERT_EQ(steal(queue, 2), list({oldest + 2, oldest + 3}));
    oldest += 4;
    value v = 0;
    ASSERT_FALSE(owner.get(v));
  }
}

}  // namespace
}  // namespace bwos::test
