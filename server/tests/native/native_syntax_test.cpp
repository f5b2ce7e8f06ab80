// SPDX-License-Identifier: Apache-2.0
#include "native/syntax.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <string>

namespace bwos::server::native {
namespace {

using namespace std::chrono_literals;

TEST(native_syntax, timeouts) {
  EXPECT_EQ(parse_timeout("1H"), 1h);
  EXPECT_EQ(parse_timeout("2M"), 2min);
  EXPECT_EQ(parse_timeout("3S"), 3s);
  EXPECT_EQ(parse_timeout("4m"), 4ms);
  EXPECT_EQ(parse_timeout("5u"), 5us);
  EXPECT_EQ(parse_timeout("6n"), 6ns);
  EXPECT_EQ(parse_timeout("00000001S"), 1s);
  EXPECT_EQ(parse_timeout("0m"), 0ms);
  EXPECT_EQ(parse_timeout("99999999H"), std::chrono::hours(24 * 365));
  for (const char* bad : {"", "S", "1", "123456789S", "1s", "1h", " 1S", "1 S", "+1S", "-1S",
                          "1.5S", "0x1S", "1SS", "\xff"}) {
    EXPECT_EQ(parse_timeout(bad), std::nullopt) << bad;
  }
}

TEST(native_syntax, content_types) {
  for (const char* good : {"application/grpc", "application/grpc+proto", "application/grpc+json",
                           "application/grpc;x"}) {
    EXPECT_TRUE(is_grpc_content_type(good)) << good;
  }
  for (const char* bad : {"", "application/grp", "application/grpc-web", "application/grpcx",
                          "text/application/grpc", "application/json"}) {
    EXPECT_FALSE(is_grpc_content_type(bad)) << bad;
  }
}

TEST(native_syntax, percent_encoding) {
  EXPECT_EQ(percent_encode(""), "");
  EXPECT_EQ(percent_encode(" plain ~text$"), " plain ~text$");
  EXPECT_EQ(percent_encode("50%\t\x7f\xe2\x82\xac\r\n"), "50%25%09%7F%E2%82%AC%0D%0A");
  EXPECT_EQ(percent_encode(std::string("\0", 1)), "%00");
}

TEST(native_syntax, base64) {
  EXPECT_EQ(decode_base64(""), "");
  EXPECT_EQ(decode_base64("YQ=="), "a");
  EXPECT_EQ(decode_base64("YQ"), "a");
  EXPECT_EQ(decode_base64("YWI="), "ab");
  EXPECT_EQ(decode_base64("YWJj"), "abc");
  EXPECT_EQ(decode_base64("+/8"), std::string("\xfb\xff"));
  for (const char* bad : {"Y", "YQ===", "Y Q=", "-_8", "=", "YWJjZ"}) {
    EXPECT_EQ(decode_base64(bad), std::nullopt) << bad;
  }
}

}  // namespace
}  // namespace bwos::server::native
