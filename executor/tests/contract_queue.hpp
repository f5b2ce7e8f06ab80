// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <thread>
#include <vector>

#include "base/random.hpp"
#include "queue_support.hpp"
#include "seed.hpp"

// What every queue with an owner and thieves promises. Instantiate with a queue of std::uintptr_t.

namespace bwos::test {

template <class Queue>
class queue_contract : public testing::Test {
 protected:
  std::unique_ptr<Queue> queue_ = std::make_unique<Queue>(round_before_wrap);
  typename Queue::owner& owner_ = queue_->as_owner();

  std::vector<value> drain() {
    std::vector<value> got;
    for (value v = 0; owner_.get(v);) got.push_back(v);
    return got;
  }
};
TYPED_TEST_SUITE_P(queue_contract);

TYPED_TEST_P(queue_contract, new_queue_is_empty) {
  value v = 0;
  EXPECT_TRUE(this->owner_.empty());
  EXPECT_FALSE(this->owner_.get(v));
  EXPECT_FALSE(this->owner_.share());
  EXPECT_TRUE(steal_everywhere(*this->queue_).empty());
  EXPECT_EQ(this->owner_.drain_front(&v, 1), 0U);
}

TYPED_TEST_P(queue_contract, owner_gets_in_the_order_of_its_puts) {
  value v = 0;
  for (value i = 1; i <= 10 * TypeParam::capacity; ++i) {
    ASSERT_TRUE(this->owner_.put(i));
    ASSERT_FALSE(this->owner_.empty());
    ASSERT_TRUE(this->owner_.get(v));
    ASSERT_EQ(v, i);
    ASSERT_TRUE(this->owner_.empty());
  }
}

TYPED_TEST_P(queue_contract, full_queue_refuses_and_works_again_when_drained) {
  for (int lap = 0; lap < 6; ++lap) {
    const value count = fill(this->owner_, 1, TypeParam::capacity);
    // A block is used again only as a whole: a queue drained inside a block is full one block
    // early.
    ASSERT_GT(count, TypeParam::capacity - TypeParam::block_entries);
    ASSERT_LE(count, TypeParam::capacity);
    ASSERT_FALSE(this->owner_.put(0));
    const std::vector<value> got = this->drain();
    ASSERT_EQ(got.size(), count);
    ASSERT_TRUE(std::is_sorted(got.begin(), got.end()));
    ASSERT_EQ(got.back(), count);
  }
}

TYPED_TEST_P(queue_contract, after_share_a_thief_finds_every_entry) {
  for (value left = 0; left <= TypeParam::capacity; left += 1 + TypeParam::capacity / 64) {
    const value count = fill(this->owner_, 1, TypeParam::capacity);
    value v = 0;
    while (v + left < count) ASSERT_TRUE(this->owner_.get(v));
    this->owner_.share();
    ASSERT_FALSE(this->owner_.share()) << "the second share has nothing to give";
    std::vector<value> stolen = steal_everywhere(*this->queue_);
    ASSERT_EQ(stolen.size(), count - v);
    std::sort(stolen.begin(), stolen.end());
    for (const value s : stolen) ASSERT_EQ(s, ++v);
    ASSERT_TRUE(this->owner_.empty());
    ASSERT_FALSE(this->owner_.get(v));
  }
}

TYPED_TEST_P(queue_contract, drain_front_takes_the_oldest_and_at_most_a_block) {
  const value count = fill(this->owner_, 1, TypeParam::capacity);
  std::vector<value> out(TypeParam::capacity + 1);
  value next = 1;
  for (std::size_t max = 1; next <= count; max = max % (TypeParam::block_entries + 2) + 1) {
    const std::size_t got = this->owner_.drain_front(out.data(), max);
    ASSERT_GE(got, 1U);
    ASSERT_LE(got, std::min(max, TypeParam::block_entries));
    for (std::size_t i = 0; i < got; ++i) ASSERT_EQ(out[i], next++);
  }
  EXPECT_TRUE(this->owner_.empty());
}

TYPED_TEST_P(queue_contract, one_thread_in_random_order_agrees_with_a_deque) {
  const std::uint64_t seed = test::seed();
  random_source random(seed);
  std::deque<value> model;
  value next = 1;
  for (unsigned step = 0; step < 200'000 * test::times(); ++step) {
    value v = 0;
    switch (random.below(8)) {
      case 0:
      case 1:
      case 2:
        if (!this->owner_.put(next)) {
          // With no thief at work, the rest of the front block is what stands in the way: the
          // spill's premise.
          std::vector<value> front(TypeParam::block_entries);
          front.resize(this->owner_.drain_front(front.data(), front.size()));
          ASSERT_LE(front.size(), model.size());
          ASSERT_TRUE(std::equal(front.begin(), front.end(), model.begin()));
          model.erase(model.begin(), model.begin() + static_cast<std::ptrdiff_t>(front.size()));
          ASSERT_TRUE(this->owner_.put(next));
        }
        model.push_back(next++);
        break;
      case 3:
      case 4:
        ASSERT_EQ(this->owner_.get(v), !model.empty());
        if (v != 0) {
          ASSERT_EQ(v, model.front());
          model.pop_front();
        }
        break;
      case 5:
        this->owner_.share();
        break;
      case 6:
        ASSERT_EQ(this->owner_.empty(), model.empty());
        break;
      default: {
        std::vector<value> stolen;
        steal_at_random<TypeParam>(this->queue_->as_thief(), random, stolen);
        if (stolen.empty()) break;
        const auto first = std::find(model.begin(), model.end(), stolen.front());
        ASSERT_GE(static_cast<std::size_t>(model.end() - first), stolen.size());
        model.erase(first, first + static_cast<std::ptrdiff_t>(stolen.size()));
      }
    }
  }
  const std::vector<value> rest = this->drain();
  EXPECT_TRUE(std::equal(rest.begin(), rest.end(), model.begin(), model.end()));
}

TYPED_TEST_P(queue_contract, every_block_with_something_to_steal_lies_in_the_range) {
  random_source random(test::seed());
  const auto thief = this->queue_->as_thief();
  std::vector<value> stolen;
  value next = 1;
  value v = 0;
  const auto put_or_get = [&](bool put) {
    if (put) {
      next += this->owner_.put(next) ? 1 : 0;
    } else {
      this->owner_.get(v);
    }
  };
  for (int steps = 20'000; steps > 0;) {
    // Runs of random length, so that the queue is now full, now empty.
    const bool putting = random.below(2) == 0;
    for (std::uint32_t run = random.below(2 * TypeParam::capacity) + 1; run > 0 && steps > 0;
         --run, --steps) {
      switch (random.below(8)) {
        case 0:
          this->owner_.share();
          break;
        case 1:
          steal_at_random<TypeParam>(thief, random, stolen);
          break;
        case 2:
          put_or_get(!putting);
          break;
        default:
          put_or_get(putting);
      }
      expect_range_covers<TypeParam>(thief);
      if (this->HasFatalFailure()) return;
    }
  }
}

// I7 and idle_set's I1: the owner puts and looks at the idle word, a worker announces itself there
// and looks through the range, each by a read-modify-write. One of them must see the other.
TYPED_TEST_P(queue_contract, put_and_announcement_cannot_miss_each_other) {
  constexpr unsigned rounds = 2'000;
  std::atomic<unsigned> idle{0};
  std::atomic<unsigned> turn{0};  // 2 * round + 1: both may begin; even: the worker has looked
  bool worker_saw = false;
  std::thread worker([&] {
    const auto thief = this->queue_->as_thief();
    for (unsigned round = 0; round < rounds; ++round) {
      while (turn.load() != 2 * round + 1) std::this_thread::yield();
      idle.fetch_add(1);
      worker_saw = finds_something(thief);
      turn.store(2 * round + 2);
    }
  });
  unsigned missed = 0;
  unsigned met_by_both = 0;
  for (unsigned round = 0; round < rounds; ++round) {
    idle.store(0);
    turn.store(2 * round + 1);
    const bool was_put = this->owner_.put(round + 1);
    this->owner_.share();
    const bool owner_saw = idle.fetch_add(0) != 0;
    while (turn.load() != 2 * round + 2) std::this_thread::yield();
    missed += owner_saw || worker_saw ? 0 : 1;
    met_by_both += owner_saw && worker_saw ? 1 : 0;
    value v = 0;
    EXPECT_TRUE(was_put && this->owner_.get(v));
  }
  worker.join();
  EXPECT_EQ(missed, 0U) << "of " << rounds << " rounds; both saw in " << met_by_both;
}

/// The owner does `steps` random puts, gets and shares while `thieves` steal; then everything put
/// was taken once.
template <class Queue>
void stress(std::uint64_t seed, unsigned thieves, unsigned steps) {
  auto queue = std::make_unique<Queue>(round_before_wrap);
  std::vector<std::vector<value>> taken(thieves + 1);
  std::atomic<unsigned> ready{0};
  std::atomic<bool> done{false};
  std::vector<std::thread> threads;
  for (unsigned id = 1; id <= thieves; ++id) {
    threads.emplace_back([&, id] {
      random_source random(seed + id);
      ready.fetch_add(1);
      for (unsigned fruitless = 0; !done.load(std::memory_order_relaxed);) {
        const std::size_t before = taken[id].size();
        steal_at_random<Queue>(queue->as_thief(), random, taken[id]);
        fruitless = taken[id].size() == before ? fruitless + 1 : 0;
        // More threads than cores: idle thieves let the others run.
        if (fruitless % 32 == 31) std::this_thread::yield();
      }
    });
  }
  while (ready.load() != thieves) std::this_thread::yield();
  random_source random(seed);
  auto& owner = queue->as_owner();
  value next = 1;
  value v = 0;
  while (steps > 0) {
    // Runs of random length, so that the queue is now full, now empty.
    const bool putting = random.below(2) == 0;
    for (std::uint32_t run = random.below(2 * Queue::capacity) + 1; run > 0 && steps > 0;
         --run, --steps) {
      if (steps % 1024 == 0) std::this_thread::yield();
      if (random.below(8) == 0) owner.share();
      if (putting == (random.below(4) != 0)) {
        if (owner.put(next)) ++next;
      } else if (owner.get(v)) {
        taken[0].push_back(v);
      }
    }
  }
  done.store(true);
  for (std::thread& thread : threads) thread.join();
  while (owner.get(v)) taken[0].push_back(v);
  EXPECT_TRUE(owner.empty());
  EXPECT_TRUE(std::is_sorted(taken[0].begin(), taken[0].end())) << "the owner overtook itself";
  expect_each_once(taken, next - 1);
}

TYPED_TEST_P(queue_contract, every_element_is_got_or_stolen_once) {
  const std::uint64_t seed = test::seed();
  for (unsigned run = 0; run < 8 * test::times(); ++run) {
    const unsigned thieves = run % 8;
    SCOPED_TRACE(testing::Message() << "seed " << seed << ", run " << run);
    stress<TypeParam>(seed + run, thieves, sanitized ? 30'000 : 200'000);
    if (this->HasFatalFailure()) return;
  }
}

REGISTER_TYPED_TEST_SUITE_P(queue_contract, new_queue_is_empty, owner_gets_in_the_order_of_its_puts,
                            full_queue_refuses_and_works_again_when_drained,
                            after_share_a_thief_finds_every_entry,
                            drain_front_takes_the_oldest_and_at_most_a_block,
                            one_thread_in_random_order_agrees_with_a_deque,
                            every_block_with_something_to_steal_lies_in_the_range,
                            put_and_announcement_cannot_miss_each_other,
                            every_element_is_got_or_stolen_once);

}  // namespace bwos::test
