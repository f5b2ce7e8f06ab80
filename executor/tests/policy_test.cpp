// SPDX-License-Identifier: Apache-2.0
#include "steal/policy.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <set>
#include <vector>

#include <bwos/queue/fifo_queue.hpp>
#include "seed.hpp"

namespace bwos::test {
namespace {

using value = std::uintptr_t;

/// A worker's queue as thieves see it, with what they did to it.
struct fake_queue {
  block_range range{.first = 0, .count = 1, .ring = 8};
  std::array<std::size_t, 8> entries{};  // of each block
  std::array<unsigned, 8> conflicts{};   // claims that others win before one succeeds
  std::array<bool, 8> vanishing{};       // whether the entries are gone between sample and steal
  std::vector<std::size_t> looked_at;    // blocks, in order
  unsigned range_looks = 0;
};

class fake_thief {
 public:
  explicit fake_thief(fake_queue& queue) : queue_(&queue) {}
  block_range in_use() const {
    ++queue_->range_looks;
    return queue_->range;
  }
  std::size_t open_entries(std::size_t block) const {
    queue_->looked_at.push_back(block);
    return queue_->entries.at(block);
  }
  steal_result steal(std::size_t block, value* out, std::size_t max) const {
    if (queue_->conflicts.at(block) != 0) {
      --queue_->conflicts[block];
      return {0, steal_status::conflict};
    }
    if (queue_->vanishing.at(block)) return {0, steal_status::done};
    const std::size_t count = std::min(max, queue_->entries.at(block));
    queue_->entries[block] -= count;
    for (std::size_t i = 0; i < count; ++i) out[i] = 1000 * block + i;
    return {count, count != 0 ? steal_status::ok : steal_status::empty};
  }

 private:
  fake_queue* queue_;
};

options settings_of(unsigned batch) {
  options result;
  result.steal_batch = batch;
  return result;
}

/// By the default: random victims, blocks in use, batches.
class stealing_from_fakes : public testing::Test {
 protected:
  static constexpr std::size_t batch = 5;

  steal_outcome attempt(unsigned self) {
    return policy_.steal(
        self, static_cast<unsigned>(queues_.size()),
        [&](unsigned i) { return parked_.contains(i); },
        [&](unsigned i) { return fake_thief(queues_.at(i)); }, out_.data());
  }

  /// Blocks of all queues that were looked at.
  std::size_t looks() const {
    std::size_t total = 0;
    for (const fake_queue& queue : queues_) total += queue.looked_at.size();
    return total;
  }

  std::vector<fake_queue> queues_;
  std::set<unsigned> parked_;
  std::array<value, batch + 1> out_{};
  steal_policy policy_{settings_of(batch), seed(), batch};
};

TEST_F(stealing_from_fakes, takes_a_batch_and_says_of_whom_and_where) {
  queues_.resize(4);
  queues_[2].range = {.first = 6, .count = 3, .ring = 8};
  queues_[2].entries[0] = 9;  // the last of the range, which wraps
  out_[batch] = 77;
  const steal_outcome first = attempt(0);
  ASSERT_TRUE(first.taken() && !first.lost());
  EXPECT_EQ(first.victim, 2U);
  EXPECT_EQ(first.block, 0U);
  EXPECT_EQ(first.count, batch);
  EXPECT_EQ(first.conflicts, 0U);
  EXPECT_EQ(out_[batch - 1], batch - 1);
  EXPECT_EQ(out_[batch], 77U) << "wrote beyond its batch";
  EXPECT_EQ(attempt(0).count, 4U) << "what is left";
  EXPECT_FALSE(attempt(0).taken());
}

TEST_F(stealing_from_fakes, never_looks_outside_the_range) {
  queues_.resize(2);
  queues_[1].range = {.first = 5, .count = 2, .ring = 8};
  queues_[1].entries.fill(1);
  queues_[1].entries[5] = queues_[1].entries[6] = 0;
  for (int i = 0; i < 100; ++i) ASSERT_FALSE(attempt(0).taken());
  for (const std::size_t block : queues_[1].looked_at) ASSERT_TRUE(block == 5 || block == 6);
}

TEST_F(stealing_from_fakes, never_steals_from_itself) {
  queues_.resize(3);
  queues_[1].entries[0] = 1;
  for (int i = 0; i < 100; ++i) ASSERT_FALSE(attempt(1).taken());
  EXPECT_EQ(queues_[1].range_looks, 0U);
}

TEST_F(stealing_from_fakes, one_worker_alone_has_nobody_to_steal_from) {
  queues_.resize(1);
  queues_[0].entries[0] = 1;
  const steal_outcome outcome = attempt(0);
  EXPECT_FALSE(outcome.taken() || outcome.lost());
}

TEST_F(stealing_from_fakes, finds_the_only_entry_of_few_workers_every_time) {
  queues_.resize(victims_max + 1);
  for (fake_queue& queue : queues_) queue.range.count = steal_policy::blocks_max;
  for (unsigned victim = 1; victim < queues_.size(); ++victim) {
    for (std::size_t block = 0; block < steal_policy::blocks_max; ++block) {
      queues_[victim].entries[block] = 1;
      const steal_outcome outcome = attempt(0);
      ASSERT_TRUE(outcome.taken());
      ASSERT_EQ(outcome.victim, victim);
      ASSERT_EQ(outcome.block, block);
    }
  }
}

TEST_F(stealing_from_fakes, cost_is_bounded_however_many_sleep_and_however_long_queues_are) {
  queues_.resize(256);
  for (fake_queue& queue : queues_) queue.range.count = 8;
  const steal_outcome outcome = attempt(0);
  EXPECT_FALSE(outcome.taken() || outcome.lost());
  EXPECT_EQ(looks(), victims_max * steal_policy::blocks_max);
}

TEST_F(stealing_from_fakes, finds_the_only_one_awake_among_many) {
  queues_.resize(256);
  queues_[200].entries[0] = 1;
  for (unsigned i = 0; i < 256; ++i) {
    if (i != 200) parked_.insert(i);
  }
  EXPECT_TRUE(attempt(0).taken());
  EXPECT_EQ(looks(), 1U);
}

TEST_F(stealing_from_fakes, one_look_a_victim_where_one_block_is_in_use) {
  queues_.resize(5);
  attempt(3);
  EXPECT_EQ(looks(), 4U);
}

TEST_F(stealing_from_fakes, what_others_win_every_time_is_lost_and_not_tried_for_ever) {
  queues_.resize(2);
  queues_[1].entries[0] = 1;
  queues_[1].conflicts[0] = 100;
  const steal_outcome outcome = attempt(0);
  EXPECT_TRUE(outcome.lost() && !outcome.taken());
  EXPECT_EQ(outcome.conflicts, claims_per_block_max);
  EXPECT_EQ(queues_[1].conflicts[0], 100 - claims_per_block_max);
}

TEST_F(stealing_from_fakes, a_lost_claim_is_tried_again_and_counted) {
  queues_.resize(2);
  queues_[1].entries[0] = 1;
  queues_[1].conflicts[0] = claims_per_block_max - 1;
  const steal_outcome outcome = attempt(0);
  EXPECT_TRUE(outcome.taken());
  EXPECT_EQ(outcome.conflicts, claims_per_block_max - 1);
}

TEST_F(stealing_from_fakes, goes_on_to_other_blocks_and_victims_after_losing_one) {
  queues_.resize(3);
  for (fake_queue& queue : queues_) {
    queue.range.count = 2;
    queue.entries[0] = 1;
    queue.conflicts[0] = 1'000'000;
  }
  queues_[2].entries[1] = 1;
  std::set<unsigned> conflicts;
  for (int i = 0; i < 100; ++i) {
    queues_[2].entries[1] = 1;
    const steal_outcome outcome = attempt(0);
    ASSERT_TRUE(outcome.taken());
    ASSERT_EQ(outcome.victim, 2U);
    ASSERT_EQ(outcome.block, 1U);
    conflicts.insert(outcome.conflicts);
  }
  EXPECT_EQ(conflicts, (std::set<unsigned>{0, claims_per_block_max, 2 * claims_per_block_max}));
}

TEST_F(stealing_from_fakes, losing_one_victim_is_not_forgotten_when_the_next_has_nothing) {
  queues_.resize(3);
  queues_[1].entries[0] = 1;
  queues_[1].conflicts[0] = 1'000'000;
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(attempt(0).lost());  // in either order of the two
}

TEST_F(stealing_from_fakes, entries_gone_between_look_and_claim_are_nothing) {
  queues_.resize(2);
  queues_[1].entries[0] = 1;
  queues_[1].vanishing[0] = true;
  const steal_outcome outcome = attempt(0);
  EXPECT_FALSE(outcome.taken() || outcome.lost());
}

TEST_F(stealing_from_fakes, begins_with_each_victim_and_each_block_alike) {
  constexpr unsigned attempts = 30'000;
  queues_.resize(4);
  for (fake_queue& queue : queues_) {
    queue.range = {.first = 6, .count = 5, .ring = 8};
    queue.entries.fill(batch * attempts);
  }
  std::array<unsigned, 4> of_victim{};
  std::array<unsigned, 8> of_block{};
  for (unsigned i = 0; i < attempts; ++i) {
    const steal_outcome outcome = attempt(1);
    ++of_victim.at(outcome.victim);
    ++of_block.at(outcome.block);
  }
  for (const unsigned victim : {0U, 2U, 3U}) {
    EXPECT_NEAR(of_victim[victim], attempts / 3, attempts / 30) << victim;
  }
  for (const std::size_t block : {6U, 7U, 0U, 1U, 2U}) {
    EXPECT_NEAR(of_block[block], attempts / 5, attempts / 30) << block;
  }
}

TEST(steal_policy, takes_from_a_real_queue_what_its_owner_has_open) {
  std::array<fifo_queue<value, 4, 16>, 2> queues;
  auto& owner = queues[1].as_owner();
  for (value v = 1; v <= 10; ++v) ASSERT_TRUE(owner.put(v));
  steal_policy policy(settings_of(4), seed(), 4);
  std::array<value, 4> out{};
  const auto attempt = [&] {
    return policy.steal(
        0, 2, [](unsigned) { return false; }, [&](unsigned i) { return queues.at(i).as_thief(); },
        out.data());
  };
  std::set<value> stolen;
  for (steal_outcome outcome = attempt(); outcome.taken(); outcome = attempt()) {
    stolen.insert(out.begin(), out.begin() + static_cast<std::ptrdiff_t>(outcome.count));
  }
  EXPECT_EQ(stolen, (std::set<value>{5, 6, 7, 8, 9, 10})) << "all but the owner's front block";
  ASSERT_TRUE(owner.share());
  ASSERT_EQ(attempt().count, 4U);
  EXPECT_EQ(out, (std::array<value, 4>{1, 2, 3, 4}));
}

}  // namespace
}  // namespace bwos::test
