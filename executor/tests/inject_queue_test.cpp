// SPDX-License-Identifier: Apache-2.0
#include "queue/inject_queue.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <memory>
#include <thread>
#include <vector>

#include "base/random.hpp"
#include "seed.hpp"

namespace bwos::test {
namespace {

struct item : continuation {
  item() : continuation(+[](continuation&, disposition) noexcept {}) {}
  std::size_t producer = 0;
  std::size_t number = 0;
  std::atomic<unsigned> popped{0};
};

std::size_t number_of(const continuation* work) {
  return static_cast<const item*>(work)->number;
}

class inject : public testing::Test {
 protected:
  inject() {
    for (std::size_t i = 0; i < std::size(items_); ++i) items_[i].number = i;
  }
  continuation_chain chain(std::size_t first, std::size_t count) {
    continuation_chain result;
    for (std::size_t i = 0; i < count; ++i) result.append(items_[first + i]);
    return result;
  }
  inject_queue queue_;
  item items_[10];
};

TEST_F(inject, new_queue_is_empty) {
  EXPECT_FALSE(queue_.maybe_nonempty());
  EXPECT_EQ(queue_.size_relaxed(), 0U);
  EXPECT_EQ(queue_.pop(), nullptr);
  EXPECT_TRUE(queue_.pop(5).empty());
}

TEST_F(inject, pops_in_the_order_of_the_pushes) {
  queue_.push(items_[0]);
  queue_.push(chain(1, 4));
  queue_.push(items_[5]);
  queue_.push(chain(6, 4));
  EXPECT_EQ(queue_.size_relaxed(), 10U);
  for (std::size_t i = 0; i < 10; ++i) {
    EXPECT_TRUE(queue_.maybe_nonempty());
    continuation* const work = queue_.pop();
    ASSERT_NE(work, nullptr);
    EXPECT_EQ(number_of(work), i);
    EXPECT_EQ(work->next, nullptr);
  }
  EXPECT_FALSE(queue_.maybe_nonempty());
}

TEST_F(inject, pops_up_to_as_many_as_asked_for) {
  queue_.push(chain(0, 10));
  std::size_t next = 0;
  for (const std::size_t expected : {4U, 4U, 2U, 0U}) {
    continuation_chain popped = queue_.pop(4);
    EXPECT_EQ(popped.count, expected);
    if (expected != 0) {
      EXPECT_EQ(popped.last->next, nullptr);
    }
    while (continuation* const work = popped.take_first()) EXPECT_EQ(number_of(work), next++);
  }
  EXPECT_EQ(next, 10U);
  queue_.push(items_[3]);
  EXPECT_EQ(queue_.pop(), &items_[3]) << "usable after having been emptied";
}

TEST(inject_queue, every_continuation_is_popped_once) {
  constexpr std::size_t producers = 3;
  constexpr std::size_t consumers = 2;
  constexpr std::size_t each = 20'000;
  const std::uint64_t seed = test::seed();
  inject_queue queue;
  const auto items = std::make_unique<item[]>(producers * each);
  std::atomic<std::size_t> left{producers * each};
  std::atomic<bool> in_order{true};
  std::vector<std::thread> threads;
  for (std::size_t producer = 0; producer < producers; ++producer) {
    threads.emplace_back([&, producer] {
      random_source random(seed + producer);
      for (std::size_t next = 0; next < each;) {
        continuation_chain chain;
        for (std::size_t count = 1 + random.below(5); count > 0 && next < each; --count) {
          item& one = items[producer * each + next];
          one.producer = producer;
          one.number = next++;
          chain.append(one);
        }
        chain.count == 1 ? queue.push(*chain.take_first()) : queue.push(chain);
      }
    });
  }
  for (std::size_t consumer = 0; consumer < consumers; ++consumer) {
    threads.emplace_back([&, consumer] {
      random_source random(seed + producers + consumer);
      std::size_t next[producers] = {};  // each consumer sees each producer's items in their order
      while (left.load() != 0) {
        continuation_chain chain = queue.pop(1 + random.below(8));
        left -= chain.count;
        while (continuation* const work = chain.take_first()) {
          item& one = static_cast<item&>(*work);
          if (one.number < next[one.producer]) in_order = false;
          next[one.producer] = one.number + 1;
          ++one.popped;
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(in_order);
  for (std::size_t i = 0; i < producers * each; ++i) ASSERT_EQ(items[i].popped, 1U) << i;
  EXPECT_FALSE(queue.maybe_nonempty());
}

// Q2: pusher and parking worker, each does its store and then looks for the other's; one of them
// must see the other.
TEST(inject_queue, push_and_announcement_cannot_miss_each_other) {
  constexpr unsigned rounds = 20'000;
  inject_queue queue;
  item work;
  std::atomic<bool> announced{false};
  std::atomic<unsigned> turn{
      0};  // 2 * round: both may start; the pusher makes it odd when it is done
  bool pusher_saw = false;
  std::thread pusher([&] {
    for (unsigned round = 0; round < rounds; ++round) {
      while (turn.load() != 2 * round + 1) std::this_thread::yield();
      queue.push(work);
      pusher_saw = announced.load();
      turn.store(2 * round + 2);
    }
  });
  for (unsigned round = 0; round < rounds; ++round) {
    announced.store(false);
    turn.store(2 * round + 1);
    announced.store(true);
    const bool worker_saw = queue.maybe_nonempty();
    while (turn.load() != 2 * round + 2) std::this_thread::yield();
    ASSERT_TRUE(worker_saw || pusher_saw) << "round " << round;
    ASSERT_EQ(queue.pop(), &work);
  }
  pusher.join();
}

}  // namespace
}  // namespace bwos::test
