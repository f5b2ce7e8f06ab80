// SPDX-License-Identifier: Apache-2.0
#include "net/memory_budget.hpp"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <random>
#include <thread>
#include <vector>

namespace bwos::server {
namespace {

constexpr std::size_t mib = 1024 * 1024;
constexpr std::size_t granule = memory_budget::granule;
constexpr std::size_t lag = memory_budget::unsummed_max;

std::int64_t bytes_of(const memory_budget& all, memory what) {
  return all.total().bytes[static_cast<std::size_t>(what)];
}
std::int64_t bytes_of(const memory_budget& all) {
  std::int64_t sum = 0;
  for (const std::int64_t each : all.total().bytes) sum += each;
  return sum;
}

TEST(memory_budget, gives_no_more_than_there_is_and_takes_it_back) {
  memory_budget all(8 * mib);
  std::size_t taken = 0;
  while (all.take(memory::bodies, 10'000)) taken += 10'000;
  EXPECT_LE(taken, 8 * mib);
  EXPECT_GE(taken + 2 * lag + 10'000, 8 * mib);  // but for what a thread's counter may lag
  EXPECT_EQ(bytes_of(all, memory::bodies), static_cast<std::int64_t>(taken));
  EXPECT_EQ(all.total().refused, 1U);
  EXPECT_FALSE(all.take(memory::output, lag));
  all.give_back(memory::bodies, taken);
  EXPECT_EQ(bytes_of(all), 0);
  EXPECT_TRUE(all.take(memory::output, 7 * mib));
  EXPECT_EQ(bytes_of(all, memory::output), static_cast<std::int64_t>(7 * mib));
}

TEST(memory_budget, takes_no_more_at_once_than_there_is) {
  memory_budget all(8 * mib);
  EXPECT_FALSE(all.take(memory::bodies, 9 * mib));
  EXPECT_FALSE(all.take(memory::bodies, std::numeric_limits<std::size_t>::max()));
  EXPECT_EQ(bytes_of(all), 0);
  EXPECT_TRUE(all.take(memory::bodies, 7 * mib));
}

TEST(memory_budget, is_tight_above_three_quarters) {
  memory_budget all(16 * mib);
  EXPECT_TRUE(all.take(memory::bodies, 11 * mib));
  EXPECT_FALSE(all.is_tight());
  EXPECT_TRUE(all.admits_body(mib));
  EXPECT_TRUE(all.take(memory::bodies, mib));
  EXPECT_TRUE(all.is_tight());
  EXPECT_FALSE(all.admits_body(memory_budget::body_bytes_tight + 1));
  EXPECT_TRUE(all.admits_body(memory_budget::body_bytes_tight));
  all.give_back(memory::bodies, 2 * mib);
  EXPECT_TRUE(all.admits_body(mib));
}

TEST(memory_budget, counts_a_thread_once_though_it_goes_from_one_budget_to_another) {
  memory_budget one(8 * mib);
  memory_budget other(8 * mib);
  for (int i = 0; i < 1000; ++i) {
    for (memory_budget* const each : {&one, &other}) {
      ASSERT_TRUE(each->take(memory::bodies, granule));
      each->give_back(memory::bodies, granule);
    }
  }
  EXPECT_TRUE(one.take(memory::bodies, 7 * mib));
  EXPECT_TRUE(other.take(memory::bodies, 7 * mib));
}

TEST(memory_budget, has_what_is_there_already_though_it_is_too_much) {
  memory_budget all(mib);
  all.take_anyway(memory::output, 3 * mib);
  EXPECT_EQ(bytes_of(all, memory::output), static_cast<std::int64_t>(3 * mib));
  EXPECT_FALSE(all.take(memory::bodies, lag));
  all.give_back(memory::output, 3 * mib);
  EXPECT_TRUE(all.take(memory::bodies, lag));
}

/// M2: what is taken anyway carries no more into the sum than itself.
TEST(memory_budget, is_not_exceeded_a_counter_at_a_time) {
  memory_budget all(4 * mib);
  std::size_t taken = 0;
  for (int i = 0; i < 1000; ++i) {
    while (all.take(memory::messages, granule)) taken += granule;
    all.take_anyway(memory::buffers, lag / 2);
    while (all.take(memory::messages, granule)) taken += granule;
    all.give_back(memory::buffers, lag / 2);
  }
  EXPECT_LE(taken, 4 * mib);
  EXPECT_GE(taken + 2 * lag, 4 * mib);
}

/// M1 and M2, with threads that give back what others took.
TEST(memory_budget, is_never_exceeded_by_threads_together) {
  constexpr std::size_t most = 16 * mib;
  constexpr int threads = 4;
  memory_budget all(most);
  std::atomic<std::int64_t> held{0};
  std::atomic<std::int64_t> highest{0};
  std::atomic<int> refused{0};
  std::mutex lock;
  std::vector<std::size_t> pieces;
  const auto run = [&](unsigned seed) {
    std::minstd_rand random(seed);
    for (int i = 0; i < 20'000; ++i) {
      const std::size_t bytes = 1 + random() % (random() % 8 == 0 ? 512 * 1024 : 8 * 1024);
      if (random() % 2 == 0) {
        if (!all.take(memory::messages, bytes)) {
          ++refused;
          continue;
        }
        const auto now = held += static_cast<std::int64_t>(bytes);
        for (std::int64_t before = highest; before < now;) {
          if (highest.compare_exchange_weak(before, now)) break;
        }
        const std::lock_guard guard(lock);
        pieces.push_back(bytes);
      } else {
        std::size_t piece = 0;
        {
          const std::lock_guard guard(lock);
          if (pieces.empty()) continue;
          std::swap(pieces[random() % pieces.size()], pieces.back());
          piece = pieces.back();
          pieces.pop_back();
        }
        held -= static_cast<std::int64_t>(piece);
        all.give_back(memory::messages, piece);
      }
    }
  };
  std::vector<std::thread> running;
  for (unsigned i = 0; i < threads; ++i) running.emplace_back(run, i + 1);
  for (std::thread& each : running) each.join();
  EXPECT_LE(highest, static_cast<std::int64_t>(most));
  EXPECT_EQ(bytes_of(all), held);
  std::size_t left = 0;
  for (const std::size_t each : pieces) left += each;
  EXPECT_EQ(held, static_cast<std::int64_t>(left));
  all.give_back(memory::messages, left);
  EXPECT_EQ(bytes_of(all), 0);
  // Nothing is lost: all but what the counters of five threads may lag can be had again.
  EXPECT_TRUE(all.take(memory::bodies, most - 2 * (threads + 1) * lag));
}

TEST(memory_account, charges_granules_of_each_kind_and_gives_all_back) {
  memory_budget all(64 * mib);
  {
    memory_account one(all, -1, 3 * granule);
    EXPECT_EQ(bytes_of(all, memory::connections), static_cast<std::int64_t>(4 * granule));
    EXPECT_TRUE(one.set(memory::bodies, granule - 1));
    EXPECT_EQ(bytes_of(all, memory::bodies), 0);
    EXPECT_TRUE(one.set(memory::bodies, 10 * granule + 5));
    EXPECT_EQ(bytes_of(all, memory::bodies), static_cast<std::int64_t>(10 * granule));
    EXPECT_TRUE(one.set(memory::bodies, 2 * granule));
    EXPECT_EQ(bytes_of(all, memory::bodies), static_cast<std::int64_t>(2 * granule));
    EXPECT_TRUE(one.take_messages(100'000));
    EXPECT_EQ(one.bytes(), 6 * granule + 100'000);
    EXPECT_FALSE(one.set(memory::output, 64 * mib));
    EXPECT_EQ(one.bytes(), 6 * granule + 100'000);
    one.set_anyway(memory::output, 64 * mib);
    EXPECT_EQ(bytes_of(all, memory::output), static_cast<std::int64_t>(64 * mib));
    one.give_back_messages(40'000);
  }
  EXPECT_EQ(bytes_of(all), 0);
}

/// A connected pair: the account is of the first.
class connection_pair {
 public:
  explicit connection_pair(memory_budget& of) {
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends_.data()), 0);
    account_.emplace(of, ends_[0], 0);
  }
  connection_pair(const connection_pair&) = delete;
  connection_pair& operator=(const connection_pair&) = delete;
  ~connection_pair() {
    account_.reset();
    for (const int each : ends_) ::close(each);
  }
  [[nodiscard]] memory_account& account() noexcept { return *account_; }
  [[nodiscard]] bool is_open() const {
    char byte = 0;
    return ::recv(ends_[1], &byte, 1, MSG_DONTWAIT) != 0;
  }

 private:
  std::array<int, 2> ends_{};
  std::optional<memory_account> account_;
};

TEST(memory_budget, resets_the_largest_where_it_is_tight_and_nobody_below_the_median) {
  memory_budget all(64 * mib);
  std::vector<std::unique_ptr<connection_pair>> every;
  for (int i = 0; i < 9; ++i) every.push_back(std::make_unique<connection_pair>(all));
  // 1, 2, ... 9 MiB: 45 of 64.
  for (std::size_t i = 0; i < every.size(); ++i) {
    EXPECT_TRUE(every[i]->account().set(memory::bodies, (i + 1) * mib));
  }
  for (const auto& each : every) EXPECT_TRUE(each->is_open());
  EXPECT_TRUE(every[0]->account().set(memory::bodies, 5 * mib));  // 49: above three quarters
  EXPECT_FALSE(every.back()->is_open());
  for (std::size_t i = 0; i + 1 < every.size(); ++i) EXPECT_TRUE(every[i]->is_open()) << i;
  EXPECT_EQ(all.total().resets, 1U);
}

TEST(memory_budget, makes_room_for_a_charge_that_was_refused) {
  memory_budget all(64 * mib);
  connection_pair large(all);
  connection_pair small(all);
  EXPECT_TRUE(large.account().set(memory::bodies, 45 * mib));
  EXPECT_FALSE(small.account().set(memory::bodies, 30 * mib));
  EXPECT_TRUE(large.is_open());  // no more than three quarters are taken
  EXPECT_TRUE(small.account().set(memory::bodies, 5 * mib));
  EXPECT_FALSE(large.is_open());
  EXPECT_TRUE(small.is_open());
}

/// Who is on the way out counts as room, and it is asked for ten times a second at most.
TEST(memory_budget, waits_for_those_that_were_reset) {
  memory_budget all(64 * mib);
  std::vector<std::unique_ptr<connection_pair>> every;
  for (int i = 0; i < 8; ++i) {
    every.push_back(std::make_unique<connection_pair>(all));
    EXPECT_TRUE(every.back()->account().set(memory::bodies, 6 * mib));
  }
  connection_pair small(all);
  EXPECT_TRUE(small.account().set(memory::bodies, mib));
  const auto open = [&] {
    return std::ranges::count_if(every, [](auto& each) { return each->is_open(); });
  };
  EXPECT_EQ(open(), 7);
  std::this_thread::sleep_for(memory_budget::room_interval * 2);
  EXPECT_TRUE(small.account().set(memory::bodies, 2 * mib));
  EXPECT_EQ(open(), 7);  // one more is not needed
  connection_pair other(all);
  EXPECT_TRUE(other.account().set(memory::bodies, 5 * mib));
  EXPECT_TRUE(small.account().set(memory::bodies, 4 * mib));
  EXPECT_EQ(open(), 7);  // not yet
  std::this_thread::sleep_for(memory_budget::room_interval * 2);
  EXPECT_TRUE(small.account().set(memory::bodies, 5 * mib));
  EXPECT_EQ(open(), 6);
  EXPECT_TRUE(small.is_open());
}

}  // namespace
}  // namespace bwos::server
