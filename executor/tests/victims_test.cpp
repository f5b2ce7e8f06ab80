// SPDX-License-Identifier: Apache-2.0
#include "steal/victims.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <map>
#include <memory>
#include <set>
#include <type_traits>
#include <vector>

#include <bwos/queue/steal.hpp>
#include "seed.hpp"

namespace bwos::test {
namespace {

using order = std::vector<unsigned>;

/// Workers as a selector sees them.
struct crowd {
  explicit crowd(unsigned how_many) : workers(how_many) {}

  unsigned workers;
  std::set<unsigned> parked;
  std::map<unsigned, std::size_t> lengths;  // 1 where it says nothing
  mutable unsigned parked_looks = 0;
  mutable std::set<unsigned> lengths_read;

  struct thief {
    std::size_t length;
    [[nodiscard]] block_range in_use() const { return {.first = 0, .count = length, .ring = 128}; }
  };

  /// All that one attempt would name.
  template <class Selector>
  order ask(Selector& selector, unsigned self, random_source& random) const {
    const auto is_parked = [&](unsigned worker) {
      ++parked_looks;
      return parked.contains(worker);
    };
    const auto thief_of = [&](unsigned worker) {
      EXPECT_NE(worker, self);
      lengths_read.insert(worker);
      const auto found = lengths.find(worker);
      return thief{found == lengths.end() ? 1 : found->second};
    };
    const other_workers<decltype(is_parked), decltype(thief_of)> others{self, workers, is_parked,
                                                                        thief_of};
    static_assert(victim_selector<Selector, decltype(others)>);
    selector.begin(others, random);
    order named;
    while (named.size() <= workers) {
      const unsigned next = selector.next();
      if (next == nobody) break;
      named.push_back(next);
    }
    EXPECT_EQ(selector.next(), nobody) << "stays over";
    return named;
  }
};

/// On this machine's CPUs, and beyond them; topology_test has others.
worker_places places_of(unsigned workers) {
  worker_places places(topology::read(), workers);
  for (unsigned i = 0; i < workers; ++i) places.put(i, i);
  return places;
}

template <class Selector>
class every_selector : public testing::Test {
 protected:
  Selector make(unsigned workers) {
    if constexpr (std::is_same_v<Selector, nearest_first>) {
      places_ = std::make_unique<worker_places>(places_of(workers));
      return nearest_first(*places_, workers);
    } else {
      return Selector();
    }
  }
  random_source random_{seed()};

 private:
  std::unique_ptr<worker_places> places_;
};
using selectors = testing::Types<random_victims, sequential_victims, last_victim_first, best_of_two,
                                 best_of_many, nearest_first>;
TYPED_TEST_SUITE(every_selector, selectors);

order all_but(unsigned self, unsigned workers) {
  order result;
  for (unsigned i = 0; i < workers; ++i) {
    if (i != self) result.push_back(i);
  }
  return result;
}

TYPED_TEST(every_selector, names_each_other_worker_once_and_never_itself) {
  for (const unsigned workers : {2U, 3U, 4U, 9U, 17U, 100U}) {
    auto tested = this->make(workers);
    crowd all(workers);
    const unsigned self = this->random_.below(workers);
    for (unsigned i = 0; i < workers; ++i) all.lengths[i] = 1 + this->random_.below(20);
    for (int attempt = 0; attempt < 200; ++attempt) {
      order named = all.ask(tested, self, this->random_);
      if constexpr (requires { tested.took_from(0U); }) {
        tested.took_from(named[this->random_.below(static_cast<std::uint32_t>(named.size()))]);
      }
      std::sort(named.begin(), named.end());
      ASSERT_EQ(named, all_but(self, workers)) << workers << " workers, for " << self;
    }
  }
}

TYPED_TEST(every_selector, does_so_when_some_or_all_sleep_and_when_workers_come) {
  auto tested = this->make(40);
  crowd all(2);
  for (; all.workers < 40; ++all.workers) {
    all.parked.insert(this->random_.below(all.workers));
    order named = all.ask(tested, 1, this->random_);
    std::sort(named.begin(), named.end());
    ASSERT_EQ(named, all_but(1, all.workers));
  }
  for (unsigned i = 0; i < all.workers; ++i) all.parked.insert(i);
  EXPECT_EQ(all.ask(tested, 1, this->random_).size(), all.workers - 1);
}

TYPED_TEST(every_selector, costs_the_same_however_many_sleep) {
  constexpr unsigned workers = 1000;
  auto tested = this->make(workers);
  crowd all(workers);
  for (unsigned i = 0; i < workers; ++i) all.parked.insert(i);
  for (int attempt = 0; attempt < 20; ++attempt) {
    all.parked_looks = 0;
    all.ask(tested, 7, this->random_);
    ASSERT_LE(all.parked_looks, 2 * victims_max);
  }
  EXPECT_TRUE(all.lengths_read.empty()) << "looked at the queue of one that sleeps";
}

TYPED_TEST(every_selector, evenly_means_that_each_is_first_with_the_same_chance) {
  if (!TypeParam::draws_evenly) return;
  auto tested = this->make(5);
  const crowd all(5);
  std::array<unsigned, 5> first{};
  for (int i = 0; i < 20'000; ++i) ++first.at(all.ask(tested, 2, this->random_).at(0));
  for (const unsigned other : {0U, 1U, 3U, 4U}) EXPECT_NEAR(first[other], 5000, 500) << other;
}

class victims : public testing::Test {
 protected:
  random_source random_{seed()};
};

TEST_F(victims, sequential_is_the_next_one_and_so_on) {
  sequential_victims tested;
  const crowd all(4);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(all.ask(tested, 0, random_), (order{1, 2, 3}));
    EXPECT_EQ(all.ask(tested, 2, random_), (order{3, 0, 1}));
    EXPECT_EQ(all.ask(tested, 3, random_), (order{0, 1, 2}));
  }
}

TEST_F(victims, last_victim_comes_first_until_another_gives_something) {
  last_victim_first tested;
  const crowd all(9);
  std::set<unsigned> first;
  for (int i = 0; i < 300; ++i) first.insert(all.ask(tested, 0, random_)[0]);
  EXPECT_EQ(first.size(), 8U) << "before anybody gave something, by chance";
  tested.took_from(5);
  std::set<unsigned> second;
  for (int i = 0; i < 300; ++i) {
    const order named = all.ask(tested, 0, random_);
    ASSERT_EQ(named[0], 5U);
    second.insert(named[1]);
  }
  EXPECT_EQ(second, (std::set<unsigned>{1, 2, 3, 4, 6, 7, 8})) << "the others by chance";
  tested.took_from(8);
  EXPECT_EQ(all.ask(tested, 0, random_)[0], 8U);
}

TEST_F(victims, best_of_two_is_the_longer_of_two_random_ones) {
  constexpr unsigned workers = 8;
  constexpr unsigned attempts = 42'000;
  best_of_two tested;
  crowd all(workers);
  for (unsigned i = 0; i < workers; ++i) all.lengths[i] = 1 + i;
  std::array<unsigned, workers> first{};
  for (unsigned i = 0; i < attempts; ++i) {
    all.lengths_read.clear();
    const order named = all.ask(tested, 0, random_);
    ASSERT_EQ(all.lengths_read, (std::set<unsigned>{named[0], named[1]})) << "reads two lengths";
    ASSERT_GT(named[0], named[1]);
    ++first.at(named[0]);
  }
  // Of the 21 pairs of the seven others, worker i is the longer one in i - 1.
  for (unsigned i = 1; i < workers; ++i) {
    EXPECT_NEAR(first[i], attempts / 21 * (i - 1), attempts / 84 + 1) << i;
  }
}

TEST_F(victims, best_of_two_compares_those_that_are_awake) {
  best_of_two tested;
  crowd all(4);
  all.parked = {3};
  all.lengths = {{1, 5}, {2, 9}, {3, 100}};
  unsigned longest_first = 0;
  for (int i = 0; i < 1000; ++i) longest_first += all.ask(tested, 0, random_)[0] == 2 ? 1 : 0;
  EXPECT_GT(longest_first, 950U) << "but where eight draws have missed it";
}

TEST_F(victims, best_of_many_is_the_longest_of_half_of_the_others) {
  best_of_many tested;
  crowd all(8);
  for (unsigned i = 0; i < 8; ++i) all.lengths[i] = 1 + i % 4;
  for (int i = 0; i < 1000; ++i) {
    all.lengths_read.clear();
    const order named = all.ask(tested, 0, random_);
    ASSERT_EQ(all.lengths_read.size(), 4U);
    for (std::size_t k = 0; k < 4; ++k) {
      ASSERT_TRUE(all.lengths_read.contains(named[k]));
      ASSERT_GE(all.lengths[named[k == 0 ? 0 : k - 1]], all.lengths[named[k]]);
    }
  }
  crowd many(100);
  many.ask(tested, 0, random_);
  EXPECT_EQ(many.lengths_read.size(), victims_max);
}

TEST_F(victims, of_equal_lengths_none_is_preferred) {
  best_of_many tested;
  const crowd all(7);
  std::array<unsigned, 7> first{};
  for (int i = 0; i < 12'000; ++i) ++first.at(all.ask(tested, 6, random_)[0]);
  for (unsigned i = 0; i < 6; ++i) EXPECT_NEAR(first[i], 2000, 300);
}

}  // namespace
}  // namespace bwos::test
