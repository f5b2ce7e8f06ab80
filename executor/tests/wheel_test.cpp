// SPDX-License-Identifier: Apache-2.0
#include "io/timer/wheel.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <iterator>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "base/random.hpp"

namespace {

using bwos::timer_entry;
using bwos::wheel;

constexpr std::int64_t day_ms = 24LL * 3600 * 1000;

struct recorded : timer_entry {
  explicit recorded(std::vector<int>& log, int name) noexcept
      : timer_entry([](timer_entry& self) noexcept {
          auto& me = static_cast<recorded&>(self);
          me.log_.push_back(me.name_);
        }),
        log_(log),
        name_(name) {}

 private:
  std::vector<int>& log_;
  int name_;
};

/// A wheel and a sorted reference side by side: every operation goes to both, and every callback is
/// checked to be the one that the reference has next. Callbacks arm and erase in turn.
class compared {
 public:
  compared(std::uint64_t seed, std::int64_t start_ms)
      : random_(seed), now_(start_ms), floor_(start_ms), wheel_(start_ms) {
    for (int i = 0; i < 500; ++i) timers_.push_back(std::make_unique<timer>(*this));
  }
  ~compared() {
    std::size_t drained = 0;
    wheel_.drain([&](timer_entry& entry) {
      EXPECT_FALSE(entry.armed());
      ++drained;
    });
    EXPECT_EQ(drained, on_time_.size() + late_.size());
    EXPECT_TRUE(wheel_.empty());
    EXPECT_EQ(wheel_.next_due(now_), wheel::never);
  }

  void step() {
    const std::uint32_t choice = random_.below(100);
    if (choice < 55) {
      arm_any(now_);
    } else if (choice < 75) {
      erase_any();
    } else {
      advance_by(jump());
    }
    check();
  }
  [[nodiscard]] std::uint64_t fired() const noexcept { return fired_; }

 private:
  struct timer : timer_entry {
    explicit timer(compared& at) noexcept
        : timer_entry([](timer_entry& self) noexcept {
            auto& me = static_cast<timer&>(self);
            me.at.on_due(me);
          }),
          at(at) {}
    compared& at;
    std::uint64_t order = 0;
  };
  using key = std::pair<std::int64_t, std::uint64_t>;  // deadline, order of arming
  static key key_of(const timer& entry) { return {entry.due_ms, entry.order}; }

  timer& any() { return *timers_[random_.below(static_cast<std::uint32_t>(timers_.size()))]; }

  std::int64_t delay() {
    static constexpr std::uint32_t spans[] = {1, 2, 64, 65, 4096, 300'000, 90'000'000};
    switch (random_.below(10)) {
      case 0:
        return -static_cast<std::int64_t>(random_.below(1000));
      case 1:
        return random_.below(400) * day_ms;
      case 2:
        return random_.below(1000) * 1000 * day_ms;
      default:
        return random_.below(spans[random_.below(std::size(spans))]);
    }
  }

  std::int64_t jump() {
    switch (random_.below(8)) {
      case 0:
        return 0;
      case 1:
        return 1;
      case 2:
        return random_.below(64);
      case 3:
        return random_.below(5000);
      case 4:
        return random_.below(40) == 0 ? random_.below(3000) * day_ms : 63;
      case 5:
        return random_.below(10) == 0 ? random_.below(100'000'000) : 64;
      default:
        return std::min<std::int64_t>(wheel_.next_due(now_), 10 * day_ms);
    }
  }

  void arm_any(std::int64_t base) {
    timer& entry = any();
    if (entry.armed()) erase(entry);
    const std::int64_t due = std::max<std::int64_t>(base + delay(), 0);
    wheel_.insert(entry, due);
    entry.order = ++orders_;
    ASSERT_EQ(entry.due_ms, due);
    (due < floor_ ? late_ : on_time_).insert({due < floor_ ? 0 : due, entry.order});
  }

  void erase(timer& entry) {
    const std::size_t taken = on_time_.erase(key_of(entry)) + late_.erase({0, entry.order}) +
                              firing_late_.erase({0, entry.order});
    ASSERT_EQ(taken, 1U);
    wheel_.erase(entry);
    ASSERT_FALSE(entry.armed());
  }
  void erase_any() {
    timer& entry = any();
    if (entry.armed()) erase(entry);
  }

  void advance_by(std::int64_t by) {
    now_ += by;
    std::swap(late_, firing_late_);
    const std::uint64_t before = fired_;
    const std::size_t said = wheel_.advance(now_);
    ASSERT_EQ(said, fired_ - before);
    ASSERT_TRUE(firing_late_.empty());
    ASSERT_TRUE(on_time_.empty() || on_time_.begin()->first > now_);
    floor_ = std::max(floor_, now_ + 1);
  }

  void on_due(timer& entry) noexcept {
    ++fired_;
    ASSERT_FALSE(entry.armed());
    ASSERT_LE(entry.due_ms, now_);
    if (!firing_late_.empty()) {
      ASSERT_EQ(firing_late_.begin()->second, entry.order);
      firing_late_.erase(firing_late_.begin());
    } else {
      ASSERT_FALSE(on_time_.empty());
      ASSERT_EQ(*on_time_.begin(), key_of(entry));
      on_time_.erase(on_time_.begin());
      floor_ = entry.due_ms + 1;
    }
    switch (random_.below(6)) {
      case 0:
        return arm_any(now_);
      case 1:
        return arm_any(std::max(entry.due_ms, now_ - 5000));  // between the firing one and now
      case 2:
        return erase_any();
      default:
        return;
    }
  }

  void check() {
    ASSERT_EQ(wheel_.size(), on_time_.size() + late_.size());
    const std::int64_t wait = wheel_.next_due(now_);
    if (!late_.empty()) {
      ASSERT_EQ(wait, 0);
    } else if (on_time_.empty()) {
      ASSERT_EQ(wait, wheel::never);
    } else {
      ASSERT_LE(wait, std::max<std::int64_t>(on_time_.begin()->first - now_, 0));
      ASSERT_TRUE(wait > 0 || floor_ <= now_);  // no busy loop: zero only while something is due
    }
  }

  bwos::random_source random_;
  std::int64_t now_;
  std::int64_t floor_;  // the reference's first tick that has not fired
  std::uint64_t orders_ = 0;
  std::uint64_t fired_ = 0;
  std::vector<std::unique_ptr<timer>> timers_;
  std::set<key> on_time_, late_, firing_late_;
  wheel wheel_;
};

TEST(wheel, agrees_with_a_sorted_reference_over_a_million_random_steps) {
  // Starts just below places where many digits carry at once.
  const std::int64_t starts[] = {0, 63, (1LL << 36) - 5, (1LL << 42) - 70};
  std::uint64_t seed = 2023;
  for (const std::int64_t start : starts) {
    SCOPED_TRACE(testing::Message() << "seed " << seed << ", start " << start);
    compared both(seed++, start);
    for (int i = 0; i < 250'000 && !testing::Test::HasFatalFailure(); ++i) both.step();
    EXPECT_GT(both.fired(), 50'000U);
  }
}

TEST(wheel, sleeping_for_next_due_meets_every_deadline_on_its_tick_in_few_wake_ups) {
  bwos::random_source random(7);
  for (int i = 0; i < 20'000; ++i) {
    std::vector<int> log;
    std::int64_t now = static_cast<std::int64_t>(random.next() >> (24 + random.below(39)));
    const auto delay = static_cast<std::int64_t>(random.next() >> (25 + random.below(39)));
    wheel timers(now);
    recorded entry(log, 1);
    timers.insert(entry, now + delay);
    const std::int64_t due = now + delay;
    int sleeps = 0;
    while (timers.advance(now) == 0) {
      const std::int64_t wait = timers.next_due(now);
      ASSERT_GT(wait, 0);
      now += wait;
      ASSERT_LE(++sleeps, 11) << "delay " << delay;  // one a level
    }
    ASSERT_EQ(now, due);
    if (delay < 64 && due / 64 == (due - delay) / 64) {
      ASSERT_LE(sleeps, 1);
    }
  }
}

TEST(wheel, an_entry_that_re_arms_itself_without_delay_fires_once_per_advance) {
  struct again : timer_entry {
    explicit again(wheel& at) noexcept
        : timer_entry([](timer_entry& self) noexcept {
            auto& me = static_cast<again&>(self);
            ++me.count;
            me.at.insert(me, me.due_ms);
          }),
          at(at) {}
    wheel& at;
    int count = 0;
  };
  wheel timers(100);
  again entry(timers);
  timers.insert(entry, 100);
  EXPECT_EQ(timers.next_due(100), 0);
  for (int i = 1; i <= 5; ++i) {
    EXPECT_EQ(timers.advance(100), 1U);
    EXPECT_EQ(entry.count, i);
    EXPECT_EQ(timers.next_due(100), 0);
  }
  timers.erase(entry);
  EXPECT_TRUE(timers.empty());
}

TEST(wheel, an_entry_re_armed_within_a_jump_fires_at_each_of_its_ticks) {
  struct periodic : timer_entry {
    explicit periodic(wheel& at) noexcept
        : timer_entry([](timer_entry& self) noexcept {
            auto& me = static_cast<periodic&>(self);
            ++me.count;
            me.at.insert(me, me.due_ms + 10);
          }),
          at(at) {}
    wheel& at;
    int count = 0;
  };
  wheel timers(0);
  periodic entry(timers);
  timers.insert(entry, 10);
  EXPECT_EQ(timers.advance(9), 0U);
  EXPECT_EQ(timers.advance(100'000), 10'000U);
  EXPECT_EQ(entry.due_ms, 100'010);
  timers.erase(entry);
}

TEST(wheel, a_callback_may_free_its_entry_and_erase_those_that_are_due_with_it) {
  struct self_owned : timer_entry {
    self_owned(wheel& at, timer_entry& victim, int& calls) noexcept
        : timer_entry([](timer_entry& self) noexcept {
            const std::unique_ptr<self_owned> me(&static_cast<self_owned&>(self));
            ++me->calls;
            if (me->victim.armed()) me->at.erase(me->victim);
          }),
          at(at),
          victim(victim),
          calls(calls) {}
    wheel& at;
    timer_entry& victim;
    int& calls;
  };
  std::vector<int> log;
  for (const std::int64_t victim_due : {50, 51, 200}) {  // same tick, next tick, another level
    wheel timers(0);
    int calls = 0;
    recorded victim(log, 1);
    recorded bystander(log, 2);
    timers.insert(*std::make_unique<self_owned>(timers, victim, calls).release(), 50);
    timers.insert(victim, victim_due);
    timers.insert(bystander, victim_due);
    EXPECT_EQ(timers.advance(300), 2U);
    EXPECT_EQ(calls, 1);
    EXPECT_FALSE(victim.armed());
    EXPECT_TRUE(timers.empty());
  }
  EXPECT_EQ(log, (std::vector<int>{2, 2, 2}));
}

TEST(wheel, the_furthest_and_the_oldest_deadlines_have_a_place) {
  std::vector<int> log;
  wheel timers(12'345);
  recorded furthest(log, 1);
  recorded oldest(log, 2);
  timers.insert(furthest, std::numeric_limits<std::int64_t>::max());
  timers.insert(oldest, std::numeric_limits<std::int64_t>::min());
  EXPECT_EQ(timers.next_due(12'345), 0);
  EXPECT_EQ(timers.advance(12'345), 1U);
  EXPECT_EQ(timers.advance(std::numeric_limits<std::int64_t>::max() - 1), 0U);
  EXPECT_EQ(timers.next_due(std::numeric_limits<std::int64_t>::max() - 1), 1);
  EXPECT_EQ(timers.advance(std::numeric_limits<std::int64_t>::max()), 1U);
  EXPECT_EQ(log, (std::vector<int>{2, 1}));
}

TEST(wheel, time_that_goes_back_fires_nothing_early_and_forgets_nothing) {
  std::vector<int> log;
  wheel timers(0);
  recorded entry(log, 1);
  timers.advance(1000);
  timers.insert(entry, 1500);
  EXPECT_EQ(timers.advance(-5), 0U);
  EXPECT_EQ(timers.advance(600), 0U);
  EXPECT_EQ(timers.advance(1499), 0U);
  EXPECT_EQ(timers.advance(1500), 1U);
}

TEST(wheel, deadlines_round_up_to_ticks_and_the_clock_down) {
  using clock = std::chrono::steady_clock;
  const auto at = [](std::int64_t ns) { return clock::time_point(std::chrono::nanoseconds(ns)); };
  EXPECT_EQ(wheel::due_tick(at(5'000'000)), 5);
  EXPECT_EQ(wheel::due_tick(at(5'000'001)), 6);
  EXPECT_EQ(wheel::now_tick(at(5'999'999)), 5);
  EXPECT_EQ(wheel::now_tick(at(6'000'000)), 6);
  EXPECT_LT(wheel::due_tick(clock::time_point::max()), wheel::never);
}

}  // namespace
