// SPDX-License-Identifier: Apache-2.0
#include <bwos/queue/fifo_queue.hpp>

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>

#include "base/random.hpp"
#include "contract_queue.hpp"
#include "queue/mutex_queue.hpp"

namespace bwos::test {
namespace {

using contract_queues =
    testing::Types<fifo_queue<value, 1, 2>, fifo_queue<value, 1, 3>, fifo_queue<value, 2, 2>,
                   fifo_queue<value, 3, 5>, fifo_queue<value, 8, 4>, fifo_queue<value, 64, 2>,
                   fifo_queue<value, 64, 128>, fifo_queue<value, 1, 512>, mutex_queue<value, 2, 2>,
                   mutex_queue<value, 64, 16>>;

struct queue_names {
  template <class Queue>
  static std::string GetName(int index) {
    const std::string shape = std::to_string(Queue::capacity / Queue::block_entries) + "x" +
                              std::to_string(Queue::block_entries);
    return (index < 8 ? "fifo_" : "mutex_") + shape;
  }
};
INSTANTIATE_TYPED_TEST_SUITE_P(queues, queue_contract, contract_queues, queue_names);

// A thief cannot call what is the owner's, nor the owner be copied into a second one.
template <class Side>
concept can_put = requires(Side& side, value v) { side.put(v); };
template <class Side>
concept can_get = requires(Side& side, value v) { side.get(v); };
template <class Side>
concept can_share = requires(Side& side) { side.share(); };
template <class Side>
concept can_drain = requires(Side& side, value v) { side.drain_front(&v, 1); };
template <class Side>
concept can_steal = requires(Side& side, value v) {
  { side.steal(0, &v, 1) } -> std::same_as<steal_result>;
  { side.sample(0) } -> std::same_as<bool>;
  { side.in_use() } -> std::same_as<block_range>;
};

template <class Queue>
constexpr bool roles_are_apart() {
  using owner = typename Queue::owner;
  using thief = typename Queue::thief;
  static_assert(can_put<owner> && can_get<owner> && can_share<owner> && can_drain<owner>);
  static_assert(!can_put<thief> && !can_get<thief> && !can_share<thief> && !can_drain<thief>);
  static_assert(can_steal<thief> && !can_steal<owner>);
  static_assert(std::copyable<thief> && !std::movable<owner>);
  static_assert(!std::convertible_to<thief, owner&> && !std::constructible_from<owner, thief>);
  return true;
}
static_assert(roles_are_apart<fifo_queue<value>>());
static_assert(roles_are_apart<mutex_queue<value>>());

static_assert(fifo_queue<void*>::block_entries == 64 && fifo_queue<void*>::block_count == 128);
static_assert(alignof(fifo_queue<void*>) == cache_line);

template <class Queue>
class thief_view {
 public:
  explicit thief_view(Queue& queue) : thief_(queue.as_thief()) {}
  std::vector<value> steal(std::size_t block, std::size_t max) {
    std::vector<value> out(Queue::block_entries);
    last_ = thief_.steal(block, out.data(), max);
    out.resize(last_.count);
    return out;
  }
  bool sample(std::size_t block) { return thief_.sample(block); }
  steal_status status() const { return last_.status; }

 private:
  typename Queue::thief thief_;
  steal_result last_;
};

using list = std::vector<value>;

TEST(fifo_queue, thief_gets_nothing_of_a_taken_block) {
  fifo_queue<value, 4, 3> queue;
  thief_view thief(queue);
  for (value v = 1; v <= 6; ++v) ASSERT_TRUE(queue.as_owner().put(v));
  EXPECT_FALSE(thief.sample(0));
  EXPECT_EQ(thief.steal(0, 4), list());
  EXPECT_EQ(thief.status(), steal_status::done);
  EXPECT_TRUE(thief.sample(1))
      << "the block behind the front is open while the owner still fills it";
  EXPECT_EQ(thief.steal(2, 4), list());
  EXPECT_EQ(thief.status(), steal_status::done) << "never opened";
}

TEST(fifo_queue, steal_takes_one_several_or_the_whole_block) {
  fifo_queue<value, 8, 3> queue;
  thief_view thief(queue);
  for (value v = 1; v <= 24; ++v) ASSERT_TRUE(queue.as_owner().put(v));
  EXPECT_EQ(thief.steal(1, 1), list({9}));
  EXPECT_EQ(thief.steal(1, 3), list({10, 11, 12}));
  EXPECT_EQ(thief.steal(1, 8), list({13, 14, 15, 16}));
  EXPECT_EQ(thief.steal(1, 8), list());
  EXPECT_EQ(thief.status(), steal_status::done);
  EXPECT_EQ(thief.steal(2, 8), list({17, 18, 19, 20, 21, 22, 23, 24}));
  value v = 0;
  for (value expected = 1; expected <= 8; ++expected) {
    ASSERT_TRUE(queue.as_owner().get(v));
    ASSERT_EQ(v, expected);
  }
  EXPECT_FALSE(queue.as_owner().get(v));
}

TEST(fifo_queue, thief_that_has_caught_up_with_the_owner_finds_the_block_empty) {
  fifo_queue<value, 4, 2> queue;
  thief_view thief(queue);
  for (value v = 1; v <= 5; ++v) ASSERT_TRUE(queue.as_owner().put(v));
  EXPECT_EQ(thief.steal(1, 4), list({5}));
  EXPECT_EQ(thief.steal(1, 4), list());
  EXPECT_EQ(thief.status(), steal_status::empty);
  ASSERT_TRUE(queue.as_owner().put(6));
  EXPECT_EQ(thief.steal(1, 4), list({6}));
}

TEST(fifo_queue, share_gives_back_what_is_unread) {
  fifo_queue<value, 4, 2> queue;
  thief_view thief(queue);
  auto& owner = queue.as_owner();
  value v = 0;
  EXPECT_FALSE(owner.share());
  for (value next = 1; next <= 3; ++next) ASSERT_TRUE(owner.put(next));
  ASSERT_TRUE(owner.get(v));
  EXPECT_TRUE(owner.share());
  EXPECT_FALSE(owner.share()) << "open already";
  EXPECT_EQ(thief.steal(0, 1), list({2}));
  EXPECT_FALSE(owner.empty());
  ASSERT_TRUE(owner.get(v)) << "taken back";
  EXPECT_EQ(v, 3U);
  EXPECT_FALSE(thief.sample(0));
  EXPECT_FALSE(owner.share()) << "nothing left";
  EXPECT_TRUE(owner.empty());
}

TEST(fifo_queue, empty_does_not_take_a_shared_block_back) {
  fifo_queue<value, 4, 2> queue;
  thief_view thief(queue);
  ASSERT_TRUE(queue.as_owner().put(1));
  ASSERT_TRUE(queue.as_owner().share());
  EXPECT_FALSE(queue.as_owner().empty());
  EXPECT_EQ(thief.steal(0, 4), list({1}));
  EXPECT_TRUE(queue.as_owner().empty());
}

TEST(fifo_queue, puts_into_a_shared_block_are_stealable_at_once) {
  fifo_queue<value, 4, 2> queue;
  thief_view thief(queue);
  auto& owner = queue.as_owner();
  ASSERT_TRUE(owner.put(1));
  ASSERT_TRUE(owner.share());
  ASSERT_TRUE(owner.put(2));
  EXPECT_EQ(thief.steal(0, 4), list({1, 2}));
  ASSERT_TRUE(owner.put(3));
  EXPECT_EQ(thief.steal(0, 4), list({3}));
  EXPECT_TRUE(owner.empty());
}

TEST(fifo_queue, put_after_lapping_into_the_front_block_says_full) {
  fifo_queue<value, 2, 2> queue;
  thief_view thief(queue);
  auto& owner = queue.as_owner();
  for (value next = 1; next <= 4; ++next) ASSERT_TRUE(owner.put(next));
  value v = 0;
  ASSERT_TRUE(owner.get(v) &&
              owner.get(v));  // block 0 is exhausted, but the front still stands in it
  ASSERT_TRUE(owner.put(5)) << "back laps into the exhausted front block";
  ASSERT_TRUE(owner.put(6));
  EXPECT_FALSE(owner.put(7)) << "block 1 holds 3 and 4, though it is not the front";
  EXPECT_FALSE(owner.share()) << "block 0 is a later lap's";
  EXPECT_FALSE(owner.empty());
  EXPECT_EQ(thief.steal(0, 1), list({5}));
  for (const value expected : {3U, 4U, 6U}) {
    ASSERT_TRUE(owner.get(v));
    EXPECT_EQ(v, expected);
  }
  EXPECT_TRUE(owner.empty());
  EXPECT_FALSE(owner.get(v));
  EXPECT_TRUE(owner.put(7));
}

TEST(fifo_queue, queue_emptied_by_thieves_after_lapping_is_seen_empty_and_usable) {
  fifo_queue<value, 2, 2> queue;
  thief_view thief(queue);
  auto& owner = queue.as_owner();
  for (value next = 1; next <= 4; ++next) ASSERT_TRUE(owner.put(next));
  value v = 0;
  ASSERT_TRUE(owner.get(v) && owner.get(v) && owner.put(5) && owner.put(6));
  EXPECT_EQ(thief.steal(1, 2), list({3, 4}));
  EXPECT_EQ(thief.steal(0, 2), list({5, 6}));
  EXPECT_TRUE(owner.empty());
  EXPECT_FALSE(owner.put(7)) << "the front stands in the previous lap until a get moves it";
  EXPECT_FALSE(owner.get(v));
  EXPECT_TRUE(owner.put(7));
}

TEST(fifo_queue, drain_front_sees_what_was_put_behind_the_owners_last_look) {
  fifo_queue<value, 4, 2> queue;
  auto& owner = queue.as_owner();
  std::array<value, 8> out{};
  ASSERT_TRUE(owner.put(1) && owner.put(2));
  ASSERT_TRUE(owner.get(out[0]));  // looks: up to 2
  for (value next = 3; next <= 8; ++next) ASSERT_TRUE(owner.put(next));
  EXPECT_FALSE(owner.put(9));
  ASSERT_EQ(owner.drain_front(out.data(), out.size()), 3U);
  EXPECT_EQ(out[0], 2U);
  EXPECT_EQ(out[2], 4U);
  EXPECT_TRUE(owner.put(9));
}

TEST(fifo_queue, put_takes_a_shared_front_block_back_to_see_whether_thieves_emptied_it) {
  fifo_queue<value, 2, 2> queue;
  thief_view thief(queue);
  auto& owner = queue.as_owner();
  for (value next = 1; next <= 4; ++next) ASSERT_TRUE(owner.put(next));
  ASSERT_TRUE(owner.share());
  EXPECT_EQ(thief.steal(0, 1), list({1}));
  EXPECT_FALSE(owner.put(5)) << "2 is still there";
  EXPECT_FALSE(thief.sample(0)) << "taken back";
  ASSERT_TRUE(owner.share());
  EXPECT_EQ(thief.steal(0, 2), list({2}));
  EXPECT_TRUE(owner.put(5)) << "thieves emptied the front block";
  for (const value expected : {3U, 4U, 5U}) {
    value v = 0;
    ASSERT_TRUE(owner.get(v));
    EXPECT_EQ(v, expected);
  }
}

/// The blocks of the range, in its order.
template <class Queue>
std::vector<std::size_t> blocks_in_use(Queue& queue) {
  const block_range range = queue.as_thief().in_use();
  std::vector<std::size_t> blocks;
  for (std::size_t i = 0; i < range.count; ++i) blocks.push_back(range[i]);
  return blocks;
}

TEST(fifo_queue, the_range_follows_front_and_back_round_the_ring) {
  using blocks = std::vector<std::size_t>;
  fifo_queue<value, 2, 3> queue;
  auto& owner = queue.as_owner();
  value v = 0;
  EXPECT_EQ(blocks_in_use(queue), blocks({0})) << "the front block may be shared any time";
  for (value next = 1; next <= 4; ++next) ASSERT_TRUE(owner.put(next));
  EXPECT_EQ(blocks_in_use(queue), blocks({0, 1}));
  ASSERT_TRUE(owner.get(v) && owner.get(v));
  EXPECT_EQ(blocks_in_use(queue), blocks({0, 1})) << "the front has not moved yet";
  ASSERT_TRUE(owner.get(v));
  EXPECT_EQ(blocks_in_use(queue), blocks({1}));
  ASSERT_TRUE(owner.put(5) && owner.put(6) && owner.put(7));
  EXPECT_EQ(blocks_in_use(queue), blocks({1, 2, 0}));
  ASSERT_TRUE(owner.put(8) && owner.get(v));
  EXPECT_EQ(v, 4U);
  ASSERT_TRUE(owner.put(9)) << "back laps into the exhausted front block";
  EXPECT_EQ(blocks_in_use(queue), blocks({1, 2, 0}));
  ASSERT_TRUE(owner.get(v));
  EXPECT_EQ(blocks_in_use(queue), blocks({2, 0, 1}));
  while (owner.get(v)) continue;
  EXPECT_EQ(v, 9U);
  EXPECT_EQ(blocks_in_use(queue), blocks({1}));
}

TEST(fifo_queue, stealable_counts_all_blocks_but_the_owners) {
  fifo_queue<value, 2, 3> queue;
  auto& owner = queue.as_owner();
  value v = 0;
  EXPECT_EQ(queue.stealable(), 0U);
  ASSERT_TRUE(owner.put(1));
  EXPECT_EQ(queue.stealable(), 0U) << "the front block is the owner's";
  ASSERT_TRUE(owner.share());
  EXPECT_EQ(queue.stealable(), 1U);
  for (value next = 2; next <= 5; ++next) ASSERT_TRUE(owner.put(next));
  EXPECT_EQ(queue.stealable(), 5U) << "of three blocks";
  ASSERT_TRUE(owner.get(v));
  EXPECT_EQ(queue.stealable(), 3U) << "the front block is taken back";
  thief_view thief(queue);
  EXPECT_EQ(thief.steal(1, 2), list({3, 4}));
  EXPECT_EQ(queue.stealable(), 1U);
}

TEST(fifo_queue, a_full_queue_has_all_its_blocks_in_use) {
  fifo_queue<value, 4, 128> queue;
  ASSERT_EQ(fill(queue.as_owner(), 1, 4 * 128), 4U * 128U);
  EXPECT_EQ(blocks_in_use(queue).size(), 128U);
  thief_view thief(queue);
  for (std::size_t block = 1; block < 128; ++block) ASSERT_EQ(thief.steal(block, 4).size(), 4U);
  EXPECT_EQ(blocks_in_use(queue).size(), 128U) << "thieves leave the range alone";
  value v = 0;
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(queue.as_owner().get(v));
  EXPECT_FALSE(queue.as_owner().get(v));
  EXPECT_EQ(blocks_in_use(queue), std::vector<std::size_t>({127}));
}

TEST(fifo_queue, rounds_wrap) {
  fifo_queue<value, 2, 3> queue(round_before_wrap);
  thief_view thief(queue);
  auto& owner = queue.as_owner();
  value next = 1;
  value expected = 1;
  for (std::size_t lap = 0; lap < 8; ++lap) {
    SCOPED_TRACE(lap);
    for (std::size_t block = 0; block < 3; ++block) {
      ASSERT_TRUE(owner.put(next) && owner.put(next + 1));
      next += 2;
      value v = 0;
      if (lap % 2 == 0) {
        owner.share();
        ASSERT_EQ(thief.steal(block, 2), list({expected, expected + 1}));
      } else {
        ASSERT_TRUE(owner.get(v) && owner.get(v));
        ASSERT_EQ(v, expected + 1);
      }
      expected += 2;
      ASSERT_FALSE(owner.get(v));
    }
  }
}

TEST(fifo_queue, samples_hit_each_stealable_block_alike) {
  constexpr unsigned hits_wanted = 100'000;
  fifo_queue<value, 4, 16> queue;  // 8 of the 16 blocks have something to steal
  auto& owner = queue.as_owner();
  for (value next = 1; next <= 9 * 4; ++next) ASSERT_TRUE(owner.put(next));
  const auto thief = queue.as_thief();
  random_source random(seed());
  std::array<unsigned, 16> hits{};
  for (unsigned total = 0; total < hits_wanted;) {
    const std::uint32_t block = random.below(16);
    if (!thief.sample(block)) continue;
    ++hits[block];
    ++total;
  }
  for (unsigned block = 0; block < 16; ++block) {
    SCOPED_TRACE(block);
    if (block >= 1 && block <= 8) {
      EXPECT_GE(hits[block], hits_wanted * 8 / 100);
      EXPECT_LE(hits[block], hits_wanted * 17 / 100);
    } else {
      EXPECT_EQ(hits[block], 0U);
    }
  }
}

}  // namespace
}  // namespace bwos::test
