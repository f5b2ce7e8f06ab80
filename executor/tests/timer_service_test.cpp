// SPDX-License-Identifier: Apache-2.0
#include "io/timer/timer_service.hpp"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/timerfd.h>

namespace bwos {
namespace {

struct counting_timer : timer_entry {
  explicit counting_timer(timer_service& of) : timer_entry(&on_time), timers(of) {}
  static void on_time(timer_entry& self) noexcept {
    auto& mine = static_cast<counting_timer&>(self);
    ++mine.fired;
    if (mine.again_ms != 0) {
      mine.timers.rearm(mine, mine.timers.firing_at() + std::exchange(mine.again_ms, 0));
    }
  }
  timer_service& timers;
  std::int64_t again_ms = 0;
  int fired = 0;
};

class timer_service_test : public ::testing::Test {
 protected:
  /// What a worker does: waits for the timerfd, and fires.
  bool turn(int limit_ms) {
    pollfd watched{.fd = fd, .events = POLLIN, .revents = 0};
    const bool due = ::poll(&watched, 1, limit_ms) == 1;
    continuation_chain sink;
    if (due) timers.advance(sink);
    return due;
  }
  void arm(timer_entry& entry, std::int64_t after_ms) {
    timers.arm(timers.acquire(), entry, timer_service::now_ms() + after_ms);
  }

  int fd = ::timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
  timer_service timers{fd};
};

TEST_F(timer_service_test, tells_its_timerfd_of_an_earlier_deadline) {
  counting_timer late(timers);
  counting_timer early(timers);
  arm(late, 60'000);
  arm(early, 10);
  EXPECT_TRUE(turn(5000));
  EXPECT_EQ(early.fired, 1);
  EXPECT_EQ(late.fired, 0);
  timers.disarm(timers.acquire(), late);
}

TEST_F(timer_service_test, a_timerfd_that_finds_an_empty_wheel_is_set_again) {
  counting_timer entry(timers);
  arm(entry, 5);
  timers.disarm(timers.acquire(), entry);
  EXPECT_TRUE(turn(5000));  // in vain
  arm(entry, 20);
  while (entry.fired == 0) ASSERT_TRUE(turn(5000));
  EXPECT_EQ(entry.fired, 1);
}

TEST_F(timer_service_test, an_entry_rearmed_while_firing_fires_again) {
  counting_timer entry(timers);
  entry.again_ms = 10;
  arm(entry, 5);
  while (entry.fired < 2) ASSERT_TRUE(turn(5000));
  EXPECT_EQ(entry.fired, 2);
}

TEST_F(timer_service_test, the_end_expires_everything) {
  counting_timer soon(timers);
  counting_timer never(timers);
  arm(soon, 60'000);
  timers.arm(timers.acquire(), never, wheel::never);
  continuation_chain sink;
  timers.expire_all(sink);
  EXPECT_EQ(soon.fired, 1);
  EXPECT_EQ(never.fired, 1);
}

}  // namespace
}  // namespace bwos
