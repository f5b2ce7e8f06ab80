// SPDX-License-Identifier: Apache-2.0
#include "http/date.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <ctime>
#include <string>
#include <string_view>

namespace bwos::server {
namespace {

TEST(date, writes_dates_as_strftime_does) {
  // Every 28 hours for about 60 years: each weekday, month, leap day, and both sides of a century's
  // end.
  for (std::time_t at = 0; at < 1'900'000'000; at += 28 * 3600 + 61) {
    char expected[64];
    std::tm utc{};
    gmtime_r(&at, &utc);
    const std::size_t size =
        std::strftime(expected, sizeof expected, "%a, %d %b %Y %H:%M:%S GMT", &utc);
    char text[29];
    write_http_date(at, text);
    ASSERT_EQ(std::string_view(text, sizeof text), std::string_view(expected, size));
  }
}

TEST(date, keeps_a_date_line_within_its_second_and_renews_it_after) {
  date_cache cache;
  const auto now = date_cache::clock::now();
  const std::string first(cache.line(now));
  ASSERT_EQ(first.size(), 37U);
  EXPECT_TRUE(first.starts_with("Date: "));
  EXPECT_TRUE(first.ends_with(" GMT\r\n"));

  // The clock on the wall, read before and after the line is written. Not by std::time(), whose
  // clock is the coarse one: it lags by a tick, so that for some milliseconds of each second it
  // says the one before.
  const auto wall = [] {
    return std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  };
  for (int i = 0; i < 100; ++i) {
    char before[29];
    char after[29];
    write_http_date(wall(), before);
    const std::string line(date_cache().line(date_cache::clock::now()));
    write_http_date(wall(), after);
    const std::string_view text = std::string_view(line).substr(6, 29);
    EXPECT_TRUE(text == std::string_view(before, 29) || text == std::string_view(after, 29))
        << line;
  }
}

}  // namespace
}  // namespace bwos::server
