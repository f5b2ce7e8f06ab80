// SPDX-License-Identifier: Apache-2.0
#include "http/h2/flood_limits.hpp"

#include <gtest/gtest.h>

namespace bwos::server::h2 {
namespace {

using namespace std::chrono_literals;

constexpr flood_limits::clock::time_point start{1000s};

/// How many of them are let through, of at most 100,000.
template <class Take>
int let_through(Take take) {
  int count = 0;
  while (count < 100'000 && take()) ++count;
  return count;
}

TEST(flood_limits, frames_that_bring_nothing_have_a_burst_and_a_rate) {
  flood_limits floods;
  floods.now(start);
  const auto frame = [&] { return floods.take_idle_frames(1); };
  EXPECT_EQ(let_through(frame), 10'000);
  floods.now(start + 10s);
  EXPECT_EQ(let_through(frame), 3299);  // one was taken that there was not
  floods.now(start + 24h);
  EXPECT_EQ(let_through(frame), 10'000) << "what is saved up has an end";
}

TEST(flood_limits, requests_and_bytes_earn_frames) {
  flood_limits floods;
  floods.now(start);
  EXPECT_TRUE(floods.take_idle_frames(10'000));
  floods.earn_request();
  EXPECT_EQ(let_through([&] { return floods.take_idle_frames(1); }), 8);
  floods.earn_bytes(11 * 1024);
  EXPECT_EQ(let_through([&] { return floods.take_idle_frames(1); }), 10);
}

TEST(flood_limits, windows_that_settings_open_are_counted_as_window_updates) {
  flood_limits floods;
  floods.now(start);
  std::uint32_t window = 65'535;
  EXPECT_TRUE(floods.take_windows(window, 1000, 1'000'000)) << "as it was";
  EXPECT_TRUE(floods.take_windows(0, 1000, 1'000'000)) << "closed";
  window = 0;
  const auto open = [&] { return floods.take_windows(++window, 1000, 1'000'000); };
  EXPECT_EQ(let_through(open), 10);
}

TEST(flood_limits, windows_that_grow_as_clients_measure_them_cost_nothing) {
  flood_limits floods;
  floods.now(start);
  for (std::uint32_t window = 65'535; window < 16U << 20; window *= 2) {
    EXPECT_TRUE(floods.take_windows(window, 10'000, 100'000'000)) << window;
  }
  EXPECT_TRUE(floods.take_idle_frames(10'000));
}

TEST(flood_limits, windows_that_are_closed_and_opened_again_are_counted) {
  flood_limits floods;
  floods.now(start);
  std::uint32_t window = 65'535;
  const auto open = [&] {
    return floods.take_windows(0, 1000, 1'000'000) &&
           floods.take_windows(++window, 1000, 1'000'000);
  };
  EXPECT_LE(let_through(open), 11);
}

TEST(flood_limits, windows_that_nothing_waits_for_cost_nothing) {
  flood_limits floods;
  floods.now(start);
  std::uint32_t window = 65'535;
  EXPECT_EQ(let_through([&] { return floods.take_windows(++window, 1000, 0); }), 100'000);
  EXPECT_TRUE(floods.take_idle_frames(10'000));
}

TEST(flood_limits, resets_for_errors_of_the_peer_have_a_burst_and_a_rate) {
  flood_limits floods;
  floods.now(start);
  for (int i = 0; i < 1000; ++i) floods.earn_request();  // which earn none of these
  const auto reset = [&] { return floods.take_error_reset(); };
  EXPECT_EQ(let_through(reset), 1000);
  floods.now(start + 1s);
  EXPECT_EQ(let_through(reset), 32);
}

TEST(flood_limits, pings_that_come_too_soon_are_strikes) {
  flood_limits floods;
  EXPECT_TRUE(floods.take_ping(start, 5min, 2));
  EXPECT_TRUE(floods.take_ping(start + 5min, 5min, 2)) << "in time";
  EXPECT_TRUE(floods.take_ping(start + 6min, 5min, 2));
  EXPECT_TRUE(floods.take_ping(start + 7min, 5min, 2));
  EXPECT_FALSE(floods.take_ping(start + 8min, 5min, 2));
  floods.excuse_pings();
  EXPECT_TRUE(floods.take_ping(start + 8min, 5min, 2));
}

}  // namespace
}  // namespace bwos::server::h2
