// SPDX-License-Identifier: Apache-2.0
#include "grpc/fields.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <string>

#include "grpc/status_message.hpp"

namespace bwos::server::rpc {
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

TEST(native_syntax, formats_of_messages) {
  for (const char* good : {"application/grpc", "application/grpc+proto", "application/grpc;x=+json",
                           "application/grpc+proto;x"}) {
    EXPECT_TRUE(is_protobuf(good)) << good;
  }
  for (const char* bad : {"application/grpc+", "application/grpc+json", "application/grpc+protox",
                          "application/grpc+json;x"}) {
    EXPECT_FALSE(is_protobuf(bad)) << bad;
  }
}

TEST(native_syntax, percent_encoding) {
  EXPECT_EQ(percent_encode(""), "");
  EXPECT_EQ(percent_encode(" plain ~text$"), " plain ~text$");
  EXPECT_EQ(percent_encode("50%\t\x7f\xe2\x82\xac\r\n"), "50%25%09%7F%E2%82%AC%0D%0A");
  EXPECT_EQ(percent_encode(std::string("\0", 1)), "%00");
}

TEST(native_syntax, messages_of_a_status_are_cut_to_whole_characters) {
  constexpr std::size_t most = rpc::status_message_bytes_max;
  EXPECT_EQ(rpc::shortened(""), "");
  const std::string plain(2 * most, 'x');
  EXPECT_EQ(rpc::shortened(std::string_view(plain).substr(0, most)).size(), most);
  EXPECT_EQ(rpc::shortened(plain).size(), most);
  for (const std::string character : {"%", "\xc3\xb6", "\xe2\x82\xac", "\xf0\x9f\x98\x80"}) {
    for (std::size_t before = 0; before < 13; ++before) {
      std::string text(before, 'x');
      while (text.size() < 2 * most) text += character;
      const std::string_view cut = rpc::shortened(text);
      EXPECT_EQ((cut.size() - before) % character.size(), 0U) << character;
      EXPECT_LE(percent_encode(cut).size(), most);
      EXPECT_GT(percent_encode(cut).size() + 3 * character.size(), most);
    }
  }
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
}  // namespace bwos::server::rpc
