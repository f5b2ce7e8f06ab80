// SPDX-License-Identifier: Apache-2.0
// Every way of stealing that options can name: what all have in common, whom the probabilistic
// choice hits how often, how much each takes, each with real threads, and in a pool.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstddef>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include <bwos/queue/fifo_queue.hpp>
#include "pool_fixture.hpp"
#include "queue_support.hpp"
#include "seed.hpp"
#include "steal/policy.hpp"

namespace bwos::test {
namespace {

constexpr std::array kinds{steal_kind::random,       steal_kind::sequential,
                           steal_kind::last_victim,  steal_kind::best_of_two,
                           steal_kind::best_of_many, steal_kind::topology};
constexpr std::array choices{steal_choice::in_use, steal_choice::probabilistic};
constexpr std::array amounts{steal_amount::batch, steal_amount::one, steal_amount::half,
                             steal_amount::block};

options settings_of(steal_kind kind, steal_choice choice, steal_amount amount) {
  options result;
  result.steal = kind;
  result.steal_blocks = choice;
  result.steal_takes = amount;
  return result;
}

/// Workers on the CPUs of this machine, and some beyond.
worker_places places_of(unsigned workers) {
  worker_places places(topology::read(), workers);
  for (unsigned i = 0; i < workers; ++i) places.put(i, i);
  return places;
}

constexpr auto nobody_sleeps = [](unsigned) { return false; };

// Chances.

using long_queue = fifo_queue<value, 4, 64>;

/// The thief of a real queue, but that what it takes stays: its length is known all the time.
struct taking_nothing {
  long_queue::thief of;
  std::vector<std::size_t>* looked_at;

  [[nodiscard]] block_range in_use() const { return of.in_use(); }
  [[nodiscard]] std::size_t open_entries(std::size_t block) const {
    looked_at->push_back(block);
    return of.open_entries(block);
  }
  steal_result steal(std::size_t block, value*, std::size_t) const {
    return {of.open_entries(block) != 0 ? 1U : 0U, steal_status::ok};
  }
};

/// Queues of worker 1, 2, ... with so many blocks open; that of worker 0, who steals, is full.
class known_lengths {
 public:
  explicit known_lengths(std::vector<std::size_t> open_blocks) : open_(std::move(open_blocks)) {
    for (std::size_t i = 0; i <= open_.size(); ++i) {
      queues_.push_back(std::make_unique<long_queue>());
      auto& owner = queues_.back()->as_owner();
      // Beginning somewhere in the ring; the front block, of which one is gone, is the owner's.
      for (value v = 0; v <= 28 * i; ++v) EXPECT_TRUE(owner.put(v) && owner.get(drop_));
      const std::size_t wanted = i == 0 ? 50 : open_[i - 1];
      for (value v = 0; v < 3 + 4 * wanted; ++v) EXPECT_TRUE(owner.put(v));
      std::size_t open = 0;
      for (std::size_t block = 0; block < long_queue::block_count; ++block) {
        open += queues_.back()->as_thief().sample(block) ? 1 : 0;
      }
      EXPECT_EQ(open, wanted);
    }
  }

  steal_outcome attempt(steal_policy& policy) {
    looked_at.clear();
    const auto thief_of = [&](unsigned worker) {
      EXPECT_NE(worker, 0U);
      return taking_nothing{queues_[worker]->as_thief(), &looked_at};
    };
    std::array<value, 64> out{};
    return policy.steal(0, static_cast<unsigned>(queues_.size()), nobody_sleeps, thief_of,
                        out.data());
  }

  /// How often each was stolen from.
  std::vector<double> hits(steal_policy& policy, unsigned wanted) {
    std::vector<double> result(open_.size());
    for (unsigned hit = 0; hit < wanted;) {
      const steal_outcome outcome = attempt(policy);
      if (!outcome.taken()) continue;
      ++result[outcome.victim - 1];
      ++hit;
    }
    return result;
  }
  [[nodiscard]] const std::vector<std::size_t>& open() const { return open_; }

  std::vector<std::size_t> looked_at;

 private:
  std::vector<std::size_t> open_;
  std::vector<std::unique_ptr<long_queue>> queues_;
  value drop_ = 0;
};

/// How far counts are from their shares, by Pearson's chi-square.
double chi_square(const std::vector<double>& counts, const std::vector<double>& shares) {
  double all = 0;
  double all_shares = 0;
  for (const double each : counts) all += each;
  for (const double each : shares) all_shares += each;
  double sum = 0;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    const double expected = all * shares[i] / all_shares;
    sum += (counts[i] - expected) * (counts[i] - expected) / expected;
  }
  return sum;
}

// What chance exceeds once in a million times. The seeds are fixed, so that a run is like another.
constexpr double most_of_6 = 38.3;  // degrees of freedom
constexpr double most_of_1 = 23.9;
constexpr std::array<std::uint64_t, 8> seeds{1, 2, 3, 5, 8, 13, 21, 34};
const std::vector<std::size_t> lengths{1, 2, 4, 8, 16, 32, 48};
constexpr unsigned hits_wanted = 20'000;

std::vector<double> shares_of(const std::vector<std::size_t>& open) {
  return {open.begin(), open.end()};
}

TEST(probabilistic_choice, hits_queues_in_proportion_to_their_lengths) {
  known_lengths queues(lengths);
  for (const std::uint64_t seed : seeds) {
    steal_policy policy(
        settings_of(steal_kind::random, steal_choice::probabilistic, steal_amount::one), seed, 1);
    const std::vector<double> hits = queues.hits(policy, hits_wanted);
    EXPECT_LT(chi_square(hits, shares_of(lengths)), most_of_6) << "seed " << seed;
  }
}

TEST(probabilistic_choice, is_not_what_a_look_through_the_blocks_in_use_does) {
  known_lengths queues(lengths);
  for (const std::uint64_t seed : seeds) {
    steal_policy policy(settings_of(steal_kind::random, steal_choice::in_use, steal_amount::one),
                        seed, 1);
    const std::vector<double> hits = queues.hits(policy, hits_wanted);
    EXPECT_GT(chi_square(hits, shares_of(lengths)), 100 * most_of_6) << "seed " << seed;
    EXPECT_LT(chi_square(hits, std::vector<double>(lengths.size(), 1)), most_of_6)
        << "it hits each alike, seed " << seed;
  }
}

TEST(probabilistic_choice, a_small_error_in_the_lengths_would_be_seen) {
  known_lengths queues(lengths);
  std::vector<std::size_t> wrong = lengths;
  wrong[4] += 2;  // 18 for 16
  steal_policy policy(
      settings_of(steal_kind::random, steal_choice::probabilistic, steal_amount::one), 1, 1);
  EXPECT_GT(chi_square(queues.hits(policy, 4 * hits_wanted), shares_of(wrong)), most_of_6);
}

/// Whoever chooses the victims: of 64 samples of one queue that has L of 64 blocks open, each has a
/// chance of L / 64.
TEST(probabilistic_choice, accepts_a_victim_by_its_length_whoever_names_it) {
  constexpr unsigned attempts = 20'000;
  const worker_places places = places_of(2);
  for (const steal_kind kind : kinds) {
    for (const std::size_t open : {std::size_t{1}, std::size_t{2}, std::size_t{4}}) {
      known_lengths queues({open});
      steal_policy policy(settings_of(kind, steal_choice::probabilistic, steal_amount::one), 7, 1,
                          &places);
      double taken = 0;
      for (unsigned i = 0; i < attempts; ++i) taken += queues.attempt(policy).taken() ? 1 : 0;
      const double chance =
          1 - std::pow(1 - static_cast<double>(open) / 64, steal_policy::samples_max);
      EXPECT_LT(chi_square({taken, attempts - taken}, {chance, 1 - chance}), most_of_1)
          << name_of(kind) << ", " << open << " blocks";
    }
  }
}

TEST(probabilistic_choice, takes_from_the_very_block_that_it_has_sampled) {
  known_lengths queues(lengths);
  const worker_places places = places_of(8);
  for (const steal_kind kind : kinds) {
    steal_policy policy(settings_of(kind, steal_choice::probabilistic, steal_amount::one), 7, 1,
                        &places);
    std::set<std::size_t> blocks;
    for (int i = 0; i < 2000; ++i) {
      const steal_outcome outcome = queues.attempt(policy);
      if (!outcome.taken()) continue;
      ASSERT_EQ(outcome.block, queues.looked_at.back()) << name_of(kind);
      if (outcome.victim == 7) blocks.insert(outcome.block);
    }
    EXPECT_EQ(blocks.size(), 48U) << name_of(kind) << ": any that is open";
  }
}

TEST(probabilistic_choice, gives_up_after_so_many_samples) {
  const worker_places places = places_of(8);
  known_lengths queues({0, 0, 0, 0, 0, 0, 0});
  for (const steal_kind kind : kinds) {
    steal_policy policy(settings_of(kind, steal_choice::probabilistic, steal_amount::one), 7, 1,
                        &places);
    for (int i = 0; i < 100; ++i) {
      const steal_outcome outcome = queues.attempt(policy);
      ASSERT_FALSE(outcome.taken() || outcome.lost());
      ASSERT_LE(queues.looked_at.size(), steal_policy::samples_max);
    }
  }
}

// Any way of stealing.

using way = std::tuple<steal_kind, steal_choice, steal_amount>;

std::string name_of_way(const ::testing::TestParamInfo<way>& info) {
  const auto& [kind, choice, amount] = info.param;
  std::string name = std::string(name_of(kind)) + "_" + name_of(choice) + "_" + name_of(amount);
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

class stealing : public ::testing::TestWithParam<way> {
 protected:
  [[nodiscard]] static options settings() { return std::apply(settings_of, GetParam()); }
  [[nodiscard]] static steal_choice choice() { return std::get<1>(GetParam()); }
  [[nodiscard]] static steal_amount amount() { return std::get<2>(GetParam()); }
};

INSTANTIATE_TEST_SUITE_P(, stealing,
                         ::testing::Combine(::testing::ValuesIn(kinds),
                                            ::testing::ValuesIn(choices),
                                            ::testing::ValuesIn(amounts)),
                         name_of_way);

TEST_P(stealing, takes_its_amount_exactly_and_the_oldest_first) {
  using queue = fifo_queue<value, 16, 4>;
  const worker_places places = places_of(2);
  for (const std::size_t room : {std::size_t{16}, std::size_t{5}}) {
    options set = settings();
    set.steal_batch = 3;
    std::array<queue, 2> queues;
    auto& owner = queues[1].as_owner();
    for (value v = 1; v <= 16; ++v) ASSERT_TRUE(owner.put(v));
    value first = 0;
    ASSERT_TRUE(owner.get(first));
    ASSERT_TRUE(owner.share());  // one block is open, 15 entries of it
    steal_policy policy(set, seed(), room, &places);
    std::size_t left = 15;
    value next = 2;
    for (int dry = 0; left != 0; ++dry) {
      ASSERT_LT(dry, 100'000);
      std::array<value, 17> out{};
      const steal_outcome outcome = policy.steal(
          0, 2, nobody_sleeps, [&](unsigned i) { return queues.at(i).as_thief(); }, out.data());
      if (!outcome.taken()) continue;
      const std::size_t wanted = amount() == steal_amount::one     ? 1
                                 : amount() == steal_amount::batch ? 3
                                 : amount() == steal_amount::half  ? (left + 1) / 2
                                                                   : 16;
      ASSERT_EQ(outcome.count, std::min({wanted, room, left})) << left << " left, room " << room;
      for (std::size_t i = 0; i < outcome.count; ++i) ASSERT_EQ(out[i], next++);
      ASSERT_EQ(out[outcome.count], 0U) << "wrote beyond";
      left -= outcome.count;
    }
  }
}

TEST_P(stealing, passes_over_who_sleeps_and_comes_to_everybody_else) {
  using queue = fifo_queue<value, 2, 8>;
  constexpr unsigned workers = 7;
  const worker_places places = places_of(workers);
  const std::set<unsigned> asleep{1, 4};
  std::vector<std::unique_ptr<queue>> queues;
  for (unsigned i = 0; i < workers; ++i) {
    queues.push_back(std::make_unique<queue>());
    for (value v = 0; v < 8; ++v) ASSERT_TRUE(queues.back()->as_owner().put(v));
  }
  steal_policy policy(settings(), seed(), 2, &places);
  std::array<value, 2> out{};
  std::array<std::size_t, workers> taken{};
  for (int attempt = 0; attempt < 3000; ++attempt) {
    const steal_outcome outcome = policy.steal(
        3, workers, [&](unsigned i) { return asleep.contains(i); },
        [&](unsigned i) {
          EXPECT_TRUE(i != 3 && !asleep.contains(i)) << i;
          return queues[i]->as_thief();
        },
        out.data());
    if (outcome.taken()) taken.at(outcome.victim) += outcome.count;
  }
  for (unsigned i = 0; i < workers; ++i) {  // of eight entries two are the owner's
    EXPECT_EQ(taken[i], i == 3 || asleep.contains(i) ? 0U : 6U) << i;
  }
  const steal_outcome none = policy.steal(
      3, workers, [](unsigned) { return true; }, [&](unsigned i) { return queues[i]->as_thief(); },
      out.data());
  EXPECT_FALSE(none.taken() || none.lost());
}

/// A range lasts until its owner goes on, so a queue that thieves have emptied may look long.
TEST_P(stealing, finds_a_short_queue_beside_long_ones_that_have_nothing) {
  using queue = fifo_queue<value, 2, 8>;
  const worker_places places = places_of(4);
  std::array<queue, 4> queues;
  for (const unsigned looted : {1U, 2U}) {
    for (value v = 0; v < 14; ++v) ASSERT_TRUE(queues.at(looted).as_owner().put(v));
    ASSERT_EQ(steal_everywhere(queues.at(looted)).size(), 12U);
    ASSERT_EQ(queues.at(looted).as_thief().in_use().count, 7U);
  }
  for (value v = 0; v < 4; ++v) ASSERT_TRUE(queues[3].as_owner().put(v));
  steal_policy policy(settings(), seed(), 2, &places);
  std::array<value, 2> out{};
  steal_outcome outcome;
  for (int dry = 0; dry < 100 && !outcome.taken(); ++dry) {
    outcome = policy.steal(
        0, 4, nobody_sleeps, [&](unsigned i) { return queues.at(i).as_thief(); }, out.data());
  }
  EXPECT_TRUE(outcome.taken());
  EXPECT_EQ(outcome.victim, 3U);
}

/// Three owners that steal from each other, and one that only steals and takes what is left.
TEST_P(stealing, every_element_is_got_or_stolen_once_by_real_threads) {
  using queue = fifo_queue<value, 8, 8>;
  constexpr unsigned owners = 3;
  constexpr unsigned workers = owners + 1;
  constexpr value each = sanitized ? 1'000 : 4'000;
  const worker_places places = places_of(workers);
  const std::uint64_t first_seed = seed();
  std::array<queue, workers> queues;
  std::array<std::vector<value>, workers> got;
  std::array<std::vector<value>, workers> stolen;
  std::atomic<unsigned> begun = 0;
  const auto thief_of = [&](unsigned i) { return queues.at(i).as_thief(); };
  const auto steal = [&](unsigned self, steal_policy& policy) {
    std::array<value, 8> out{};
    const steal_outcome outcome = policy.steal(self, workers, nobody_sleeps, thief_of, out.data());
    stolen.at(self).insert(stolen.at(self).end(), out.begin(),
                           out.begin() + static_cast<std::ptrdiff_t>(outcome.count));
    return outcome.taken();
  };
  const auto work = [&](unsigned self) {
    steal_policy policy(settings(), first_seed + self, 8, &places);
    random_source random(first_seed + 100 + self);
    auto& owner = queues.at(self).as_owner();
    ++begun;
    while (begun != owners) std::this_thread::yield();
    value next = self * each + 1;
    const value end = next + each;
    while (next != end) {
      if (owner.put(next)) ++next;
      value v = 0;
      if (random.below(3) == 0 && owner.get(v)) got.at(self).push_back(v);
      if (random.below(4) == 0) owner.share();
      if (random.below(4) == 0) steal(self, policy);
    }
    owner.share();
  };
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < owners; ++i) threads.emplace_back(work, i);
  for (std::thread& thread : threads) thread.join();
  steal_policy last(settings(), first_seed, 8, &places);
  for (int dry = 0; dry < 500;) dry = steal(owners, last) ? 0 : dry + 1;
  EXPECT_FALSE(stolen[owners].empty());
  for (queue& from : queues) {
    value v = 0;
    while (from.as_owner().get(v)) got[owners].push_back(v);
  }
  EXPECT_TRUE(got[owners].empty()) << "stealing went on until all was gone";
  std::vector<std::vector<value>> all(got.begin(), got.end());
  all.insert(all.end(), stolen.begin(), stolen.end());
  expect_each_once(all, owners * each);
}

/// A task waits for all that it has posted: the other workers have to steal all of it.
TEST_P(stealing, in_a_pool_the_others_take_what_waits_behind_a_task) {
  constexpr int behind = 300;
  for (const testing::parking& how : {testing::on_futexes, testing::on_a_shared_set}) {
    options set = settings();
    const options base = testing::options_of(how, 3);
    set.workers = base.workers;
    set.reactor = base.reactor;
    set.reactor_group = base.reactor_group;
    pool under_test(set);
    std::atomic<int> ran = 0;
    std::atomic<bool> all_ran = false;
    testing::heap_call::post(under_test, [&] {
      for (int i = 0; i < behind; ++i) {
        testing::heap_call::post(under_test, [&] { ++ran; });
      }
      all_ran = testing::eventually([&] { return ran == behind; });
    });
    under_test.join();
    EXPECT_TRUE(all_ran);
    worker_statistics sum;
    for (const worker_statistics& each : under_test.statistics().workers) {
      sum.steal_entries += each.steal_entries;
      sum.steal_hit += each.steal_hit;
      sum.steal_sighted += each.steal_sighted;
      sum.run += each.run;
    }
    EXPECT_EQ(sum.run, behind + 1U);
    EXPECT_GE(sum.steal_entries, static_cast<unsigned>(behind));
    if (amount() == steal_amount::one) {
      EXPECT_EQ(sum.steal_entries, sum.steal_hit + sum.steal_sighted);
    }
  }
}

}  // namespace
}  // namespace bwos::test
