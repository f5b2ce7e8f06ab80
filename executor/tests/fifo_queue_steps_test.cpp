// SPDX-License-Identifier: Apache-2.0
// What thieves see between any two writes of the owner: the queue as in fifo_queue_test, but with
// the atomic of steps/bwos/base/atomic.hpp.
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include <bwos/queue/fifo_queue.hpp>
#include "base/random.hpp"
#include "queue_support.hpp"
#include "seed.hpp"

namespace bwos::test {
namespace {

std::function<void()> look;

/// While it lives, `what` is called after each write to an atomic.
class after_writes {
 public:
  explicit after_writes(std::function<void()> what) {
    look = std::move(what);
    after_each_write = [] { look(); };
  }
  ~after_writes() { after_each_write = nullptr; }
  after_writes(const after_writes&) = delete;
  after_writes& operator=(const after_writes&) = delete;
};

template <class Queue>
class fifo_queue_steps : public testing::Test {};
using shapes = testing::Types<fifo_queue<value, 1, 2>, fifo_queue<value, 1, 3>,
                              fifo_queue<value, 2, 2>, fifo_queue<value, 3, 5>>;
TYPED_TEST_SUITE(fifo_queue_steps, shapes);

// I7. A range that is stored behind the block's opening, or behind the entry's publication, is
// caught between the two.
TYPED_TEST(fifo_queue_steps, every_block_with_something_to_steal_lies_in_the_range_at_every_step) {
  const auto queue = std::make_unique<TypeParam>(round_before_wrap);
  const auto thief = queue->as_thief();
  auto& owner = queue->as_owner();
  random_source random(test::seed());
  std::vector<value> stolen;
  unsigned looks = 0;
  const after_writes checked([&] {
    ++looks;
    expect_range_covers<TypeParam>(thief);
  });
  value next = 1;
  for (int step = 0; step < 20'000 && !this->HasFatalFailure(); ++step) {
    value v = 0;
    switch (random.below(8)) {
      case 0:
        owner.share();
        break;
      case 1:
        steal_at_random<TypeParam>(thief, random, stolen);
        break;
      case 2:
      case 3:
      case 4:
        owner.get(v);
        break;
      default:
        next += owner.put(next) ? 1 : 0;
    }
  }
  EXPECT_GT(looks, 1'000U);
}

}  // namespace
}  // namespace bwos::test
