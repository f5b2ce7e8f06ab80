// SPDX-License-Identifier: Apache-2.0
#include <bwos/queue/fork_queue.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "base/random.hpp"
#include "queue_support.hpp"
#include "seed.hpp"
#include "stack_support.hpp"

namespace bwos::test {
namespace {

constexpr std::uint32_t height_before_wrap = 0x7fff'fffdU;  // 2^31 - 3

/// `Fast`: gets that need no read-modify-write, as membarrier(2) allows them.
template <std::size_t Entries, std::size_t Blocks, bool Fast>
struct shape {
  using queue = fork_queue<value, Entries, Blocks>;
  static constexpr bool fast = Fast;
};

/// A queue and the blocks that it was given.
template <class Shape>
class growing_queue {
 public:
  using queue_type = Shape::queue;

  queue_type& operator*() noexcept { return queue_; }
  queue_type::owner& owner() noexcept { return queue_.as_owner(); }

  void grow() {
    const std::size_t count = owner().growth();
    parts_.push_back(std::make_unique<typename queue_type::block[]>(count));
    owner().grow(parts_.back().get());
    capacity_ += count * queue_type::block_entries;
  }
  std::size_t capacity() const noexcept { return capacity_; }

 private:
  std::vector<std::unique_ptr<typename queue_type::block[]>> parts_;
  queue_type queue_{Shape::fast && asymmetric_fence::available(), height_before_wrap};
  std::size_t capacity_ = queue_type::block_entries * queue_type::block_count;
};

template <class Shape>
class fork_contract : public testing::Test {
 protected:
  using queue_type = Shape::queue;
  static constexpr std::size_t block_entries = queue_type::block_entries;

  void SetUp() override {
    if (Shape::fast && !asymmetric_fence::available()) GTEST_SKIP() << "no membarrier(2) here";
  }
  list steal(std::size_t max) { return test::steal(*queue_, max); }
  bool expose() { return (*queue_).as_thief().expose() == steal_status::ok; }

  growing_queue<Shape> queue_;
  queue_type::owner& owner_ = queue_.owner();
};
using shapes =
    testing::Types<shape<1, 2, true>, shape<1, 3, true>, shape<2, 2, true>, shape<3, 5, true>,
                   shape<8, 4, true>, shape<64, 8, true>, shape<1, 2, false>, shape<1, 3, false>,
                   shape<2, 2, false>, shape<8, 4, false>, shape<64, 8, false>>;
struct shape_names {
  template <class Shape>
  static std::string GetName(int) {
    return std::to_string(Shape::queue::block_count) + "x" +
           std::to_string(Shape::queue::block_entries) + (Shape::fast ? "" : "_without_membarrier");
  }
};
TYPED_TEST_SUITE(fork_contract, shapes, shape_names);

TYPED_TEST(fork_contract, new_queue_is_empty) {
  value v = 0;
  EXPECT_TRUE(this->owner_.empty());
  EXPECT_FALSE(this->owner_.get(v));
  EXPECT_FALSE(this->expose());
  EXPECT_FALSE((*this->queue_).as_thief().sample());
  EXPECT_EQ(this->steal(1), list());
}

TYPED_TEST(fork_contract, owner_gets_the_last_that_it_put) {
  for (value count = 1; count <= this->queue_.capacity(); ++count) {
    ASSERT_EQ(fill(this->owner_, 1, count - 1), count);
    ASSERT_FALSE(this->owner_.empty());
    ASSERT_EQ(drain(this->owner_), downwards(count, 1));
    ASSERT_TRUE(this->owner_.empty());
  }
}

TYPED_TEST(fork_contract, full_queue_refuses_and_works_again_when_drained) {
  const value capacity = this->queue_.capacity();
  for (int lap = 0; lap < 6; ++lap) {
    ASSERT_EQ(fill(this->owner_, 1, 2 * capacity), capacity);
    ASSERT_FALSE(this->owner_.put(0));
    ASSERT_FALSE(this->owner_.put(0)) << "and again";
    ASSERT_EQ(drain(this->owner_), downwards(capacity, 1));
  }
}

TYPED_TEST(fork_contract, full_queue_takes_more_when_thieves_have_emptied_its_lowest_block) {
  value next = 1 + fill(this->owner_, 1, 2 * this->queue_.capacity());
  value oldest = 1;
  for (std::size_t block = 0; block < 6 * TypeParam::queue::block_count; ++block) {
    for (std::size_t i = 0; i < this->block_entries; ++i) {
      ASSERT_FALSE(this->owner_.put(next)) << "entry " << i << " of the block is not stolen";
      ASSERT_EQ(this->steal(1), list({oldest++}));
    }
    for (std::size_t i = 0; i < this->block_entries; ++i) {
      ASSERT_TRUE(this->owner_.put(next++));
    }
  }
  EXPECT_EQ(drain(this->owner_), downwards(next - 1, oldest));
}

TYPED_TEST(fork_contract, full_queue_grows) {
  value next = 1;
  value oldest = 1;
  for (int growth = 0; growth < 5; ++growth) {
    next += fill(this->owner_, next, 1'000'000);
    // So that the ring does not begin where its first block lies, and some of it is in use.
    this->expose();
    for (std::size_t i = 0; i < this->block_entries + 1; ++i) {
      ASSERT_EQ(this->steal(1), list({oldest++}));
    }
    next += fill(this->owner_, next, 1'000'000);
    ASSERT_GT(next - oldest + this->block_entries, this->queue_.capacity());
    ASSERT_FALSE(this->owner_.put(next));
    this->queue_.grow();
    ASSERT_TRUE(this->owner_.put(next++));
  }
  ASSERT_EQ(this->steal(1), list({oldest++}));
  EXPECT_EQ(drain(this->owner_), downwards(next - 1, oldest));
  ASSERT_EQ(fill(this->owner_, 1, this->block_entries * 3), this->block_entries * 3 + 1);
  EXPECT_EQ(drain(this->owner_), downwards(this->block_entries * 3 + 1, 1));
}

TYPED_TEST(fork_contract, what_is_exposed_thieves_find_whole_the_oldest_first) {
  for (value wanted = 1; wanted <= this->queue_.capacity(); ++wanted) {
    // What thieves have taken of a block is used again with all of it: that may be missing.
    const value count = fill(this->owner_, 1, wanted - 1);
    ASSERT_GT(count + this->block_entries, wanted);
    ASSERT_TRUE(this->expose());
    ASSERT_FALSE(this->expose()) << "the second time there is nothing to expose";
    ASSERT_FALSE(this->owner_.empty());
    list stolen = steal_all(*this->queue_);
    std::reverse(stolen.begin(), stolen.end());
    ASSERT_EQ(stolen, downwards(count, 1));
    ASSERT_TRUE(this->owner_.empty());
    ASSERT_EQ(drain(this->owner_), list());
  }
}

TYPED_TEST(fork_contract, one_thread_in_random_order_agrees_with_a_deque) {
  random_source random(test::seed());
  std::deque<value> model;
  value next = 1;
  const auto thief = (*this->queue_).as_thief();
  for (unsigned step = 0; step < 200'000 * test::times();) {
    // Runs of random length, so that the queue is now full, now empty.
    const bool putting = random.below(2) == 0;
    const auto longest = static_cast<std::uint32_t>(2 * this->queue_.capacity());
    for (std::uint32_t run = random.below(longest) + 1; run > 0; --run, ++step) {
      value v = 0;
      switch (random.below(8)) {
        case 0:
          if (random.below(2) == 0) {
            thief.request();
          } else {
            thief.expose();
          }
          break;
        case 1:
          ASSERT_EQ(this->owner_.empty(), model.empty());
          break;
        case 2: {
          const list stolen = this->steal(1 + random.below(this->block_entries));
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
              ASSERT_GT(model.size() + 2 * this->block_entries, this->queue_.capacity());
              if (random.below(1000) == 0 && this->queue_.capacity() < 1000) this->queue_.grow();
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

TYPED_TEST(fork_contract, every_element_is_got_or_stolen_once) {
  const std::uint64_t seed = test::seed();
  for (unsigned run = 0; run < 6 * test::times(); ++run) {
    const unsigned thieves = run % 6;
    SCOPED_TRACE(testing::Message() << "seed " << seed << ", run " << run);
    growing_queue<TypeParam> queue;
    stress(
        seed + run, *queue, thieves, sanitized ? 30'000 : 200'000,
        [&queue](auto& owner, random_source& random) {
          if (random.below(10'000) == 0 && owner.growth() < 1000) queue.grow();
        },
        [](const auto& thief, random_source& random) {
          if (random.below(8) == 0) thief.request();
          if (random.below(32) == 0) thief.expose();
        });
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
  { side.expose() } -> std::same_as<steal_status>;
};
using owner_side = fork_queue<value>::owner;
using thief_side = fork_queue<value>::thief;
static_assert(can_put<owner_side> && can_get<owner_side> && !can_steal<owner_side>);
static_assert(!can_put<thief_side> && !can_get<thief_side> && can_steal<thief_side>);
static_assert(std::copyable<thief_side> && !std::movable<owner_side>);

using small_queue = fork_queue<value, 4, 2>;

TEST(fork_queue, a_thief_gets_nothing_of_the_top_block_by_itself) {
  small_queue queue;
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

TEST(fork_queue, a_request_lets_the_next_put_grant_half) {
  small_queue queue;
  auto& owner = queue.as_owner();
  ASSERT_TRUE(owner.put(1) && owner.put(2));
  queue.as_thief().request();
  EXPECT_EQ(steal(queue, 4), list()) << "not by itself";
  ASSERT_TRUE(owner.put(3));
  EXPECT_EQ(steal(queue, 4), list({1, 2}));
  EXPECT_EQ(drain(owner), list({3}));
}

TEST(fork_queue, a_request_lets_the_next_get_grant_half_of_the_rest) {
  small_queue queue;
  auto& owner = queue.as_owner();
  ASSERT_EQ(fill(owner, 1, 3), 4U);
  queue.as_thief().request();
  value v = 0;
  ASSERT_TRUE(owner.get(v));
  EXPECT_EQ(v, 4U);
  EXPECT_EQ(steal(queue, 4), list({1, 2}));
  EXPECT_EQ(drain(owner), list({3}));
}

// A worker that sleeps asks first, and counts on it.
TEST(fork_queue, a_request_of_an_empty_queue_waits_for_a_put) {
  small_queue queue;
  auto& owner = queue.as_owner();
  value v = 0;
  queue.as_thief().request();
  ASSERT_FALSE(owner.get(v));
  ASSERT_TRUE(owner.put(1));
  EXPECT_EQ(steal(queue, 4), list({1}));
  ASSERT_TRUE(owner.put(2));
  EXPECT_EQ(steal(queue, 4), list()) << "answered once";
}

TEST(fork_queue, what_is_granted_outlives_puts_and_gets_of_the_rest) {
  fork_queue<value, 8, 2> queue;
  auto& owner = queue.as_owner();
  ASSERT_TRUE(owner.put(1) && owner.put(2));
  ASSERT_EQ(queue.as_thief().expose(), steal_status::ok);
  ASSERT_TRUE(owner.put(3) && owner.put(4));
  value v = 0;
  ASSERT_TRUE(owner.get(v));
  EXPECT_EQ(v, 4U);
  ASSERT_TRUE(owner.put(5));
  EXPECT_EQ(steal(queue, 8), list({1, 2}));
  EXPECT_EQ(drain(owner), list({5, 3}));
}

TEST(fork_queue, the_owner_takes_back_what_is_granted_when_it_comes_to_it) {
  small_queue queue;
  auto& owner = queue.as_owner();
  ASSERT_TRUE(owner.put(1) && owner.put(2) && owner.put(3));
  ASSERT_EQ(queue.as_thief().expose(), steal_status::ok);
  EXPECT_EQ(steal(queue, 1), list({1}));
  value v = 0;
  ASSERT_TRUE(owner.get(v));
  EXPECT_EQ(v, 3U);
  EXPECT_EQ(steal(queue, 1), list()) << "2 is the owner's again";
  EXPECT_EQ(drain(owner), list({2}));
}

// K6. "Where all that is granted is claimed, go on" loses a task here: the thief would stand at
// block 1 when 3 comes to lie in block 0.
TEST(fork_queue, a_thief_stays_at_a_block_that_the_owner_has_taken) {
  fork_queue<value, 1, 3> queue;
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

TEST(fork_queue, thieves_that_reach_the_top_leave_nothing_below) {
  fork_queue<value, 2, 3> queue;
  auto& owner = queue.as_owner();
  ASSERT_EQ(fill(owner, 1, 3), 4U);
  ASSERT_EQ(queue.as_thief().expose(), steal_status::ok);
  EXPECT_EQ(steal_all(queue), list({1, 2, 3, 4}));
  value v = 0;
  EXPECT_FALSE(queue.as_thief().sample());
  EXPECT_TRUE(owner.empty());
  EXPECT_FALSE(owner.get(v));
  EXPECT_FALSE(owner.get(v));
  ASSERT_TRUE(owner.put(5));
  EXPECT_EQ(drain(owner), list({5}));
}

TEST(fork_queue, heights_wrap) {
  fork_queue<value, 2, 3> queue(asymmetric_fence::available(), height_before_wrap);
  auto& owner = queue.as_owner();
  value next = 1;
  value oldest = 1;
  for (std::size_t block = 0; block < 8; ++block) {
    SCOPED_TRACE(block);
    ASSERT_EQ(fill(owner, next, 3), 4U);
    next += 4;
    queue.as_thief().expose();
    ASSERT_EQ(steal(queue, 2), list({oldest, oldest + 1}));
    ASSERT_EQ(steal(queue, 2), list({oldest + 2, oldest + 3}));
    oldest += 4;
    value v = 0;
    ASSERT_FALSE(owner.get(v));
  }
}

}  // namespace
}  // namespace bwos::test
