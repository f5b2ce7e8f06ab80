// SPDX-License-Identifier: Apache-2.0
#include "base/units.hpp"

#include <gtest/gtest.h>

namespace bwos::server {
namespace {

using namespace std::chrono_literals;

TEST(units, reads_durations_with_their_units) {
  EXPECT_EQ(parse_duration("250us"), 250us);
  EXPECT_EQ(parse_duration("10ms"), 10ms);
  EXPECT_EQ(parse_duration("30s"), 30s);
  EXPECT_EQ(parse_duration("5m"), 5min);
  EXPECT_EQ(parse_duration("24h"), 24h);
  EXPECT_EQ(parse_duration("0"), 0us);
  for (const char* bad : {"", "10", "s", "-1s", "1.5s", " 1s", "1 s", "1S", "1d",
                          "99999999999999999999s", "9999999999999999m"}) {
    EXPECT_EQ(parse_duration(bad), std::nullopt) << bad;
  }
}

TEST(units, reads_sizes) {
  EXPECT_EQ(parse_bytes("512"), 512U);
  EXPECT_EQ(parse_bytes("512B"), 512U);
  EXPECT_EQ(parse_bytes("16KiB"), 16384U);
  EXPECT_EQ(parse_bytes("4MiB"), 4U << 20);
  EXPECT_EQ(parse_bytes("1GiB"), 1U << 30);
  for (const char* bad : {"", "KiB", "-1", "1KB", "1k", "0x10", "1.5MiB", "99999999999999999999"}) {
    EXPECT_EQ(parse_bytes(bad), std::nullopt) << bad;
  }
}

TEST(units, writes_what_it_reads) {
  for (const char* text : {"250us", "10ms", "30s", "5m", "24h", "1001us"})
    EXPECT_EQ(format_duration(parse_duration(text).value_or(0us)), text);
  for (const char* text : {"1B", "16KiB", "4MiB", "1GiB", "1025B"})
    EXPECT_EQ(format_bytes(parse_bytes(text).value_or(0)), text);
  EXPECT_EQ(format_duration(0us), "0");
}

TEST(units, knows_the_form_of_an_address) {
  for (const char* good : {"127.0.0.1:8080", "[::]:0", "[::1]:65535", "localhost:1"})
    EXPECT_TRUE(is_host_port(good)) << good;
  for (const char* bad : {"", ":1", "127.0.0.1", "127.0.0.1:", "127.0.0.1:65536", "127.0.0.1:-1",
                          "127.0.0.1:x", "::1:80", "[]:80", "[::1]", "[::1:80", "a:000080"}) {
    EXPECT_FALSE(is_host_port(bad)) << bad;
  }
}

}  // namespace
}  // namespace bwos::server
