// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <thread>
#include <vector>

#include "base/random.hpp"
#include "queue_support.hpp"

// What tests of the two LIFO queues do again and again.

namespace bwos::test {

using list = std::vector<value>;

/// What a thief gets.
template <class Queue>
list steal(Queue& queue, std::size_t max) {
  list out(Queue::block_entries);
  out.resize(queue.as_thief().steal(out.data(), max).count);
  return out;
}

/// All that a thief finds.
template <class Queue>
list steal_all(Queue& queue) {
  list stolen;
  for (list batch = steal(queue, Queue::block_entries); !batch.empty();
       batch = steal(queue, Queue::block_entries)) {
    stolen.insert(stolen.end(), batch.begin(), batch.end());
  }
  return stolen;
}

/// All that the owner gets.
template <class Owner>
list drain(Owner& owner) {
  list got;
  for (value v = 0; owner.get(v);) got.push_back(v);
  return got;
}

inline list downwards(value from, value to) {
  list values;
  for (value v = from; v >= to; --v) values.push_back(v);
  return values;
}

/// The owner does `steps` random puts and gets, each after a step of `owners`, while `thieves`
/// steal, each after a step of `thiefs`; then everything that was put was taken once, and the owner
/// got what it had put last.
template <class Queue, class OwnersStep, class ThiefsStep>
void stress(std::uint64_t seed, Queue& queue, unsigned thieves, unsigned steps, OwnersStep owners,
            ThiefsStep thiefs) {
  std::vector<list> taken(thieves + 1);
  std::atomic<unsigned> ready{0};
  std::atomic<bool> done{false};
  std::vector<std::thread> threads;
  for (unsigned id = 1; id <= thieves; ++id) {
    threads.emplace_back([&, id] {
      random_source random(seed + id);
      ready.fetch_add(1);
      for (unsigned fruitless = 0; !done.load(std::memory_order_relaxed);) {
        thiefs(queue.as_thief(), random);
        const list got = steal(queue, 1 + random.below(Queue::block_entries));
        taken[id].insert(taken[id].end(), got.begin(), got.end());
        fruitless = got.empty() ? fruitless + 1 : 0;
        // More threads than cores: idle thieves let the others run.
        if (fruitless % 32 == 31) std::this_thread::yield();
      }
    });
  }
  while (ready.load() != thieves) std::this_thread::yield();
  random_source random(seed);
  auto& owner = queue.as_owner();
  list model;  // what the owner put, but for what it got; thieves take from the bottom of it
  value next = 1;
  const auto get = [&] {
    value v = 0;
    if (owner.get(v)) {
      ASSERT_FALSE(model.empty());
      ASSERT_EQ(v, model.back()) << "not what was put last";
      model.pop_back();
      taken[0].push_back(v);
    } else {
      model.clear();
    }
  };
  while (steps > 0) {
    // Runs of random length, so that the queue is now full, now empty.
    const bool putting = random.below(2) == 0;
    for (std::uint32_t run = random.below(2 * Queue::block_entries * Queue::block_count) + 1;
         run > 0 && steps > 0; --run, --steps) {
      if (steps % 1024 == 0) std::this_thread::yield();
      owners(owner, random);
      if (putting != (random.below(4) != 0)) {
        get();
      } else if (owner.put(next)) {
        model.push_back(next++);
      }
    }
  }
  done.store(true);
  for (std::thread& thread : threads) thread.join();
  while (!owner.empty()) get();
  expect_each_once(taken, next - 1);
}

}  // namespace bwos::test
