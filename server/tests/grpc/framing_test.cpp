// SPDX-License-Identifier: Apache-2.0
#include "grpc/framing.hpp"

#include <gtest/gtest.h>

#include <string>

namespace bwos::server::rpc {
namespace {

std::string written(std::uint8_t flag, std::uint32_t size) {
  std::string text(message_prefix::bytes, '\0');
  message_prefix{.flag = flag, .size = size}.write(text.data());
  return text;
}

TEST(framing, a_prefix_is_a_flag_and_a_size_most_significant_first) {
  EXPECT_EQ(written(0, 0), std::string(5, '\0'));
  EXPECT_EQ(written(1, 0x01020304), std::string("\x01\x01\x02\x03\x04", 5));
  EXPECT_EQ(written(0, 0xffffffff), std::string("\0\xff\xff\xff\xff", 5));
}

TEST(framing, what_was_written_is_read_however_it_is_cut) {
  for (const std::uint32_t size : {0U, 1U, 255U, 256U, 65536U, 0x80000000U, 0xffffffffU}) {
    const std::string text = written(1, size) + "rest";
    for (std::size_t cut = 0; cut <= text.size(); ++cut) {
      prefix_reader reader;
      EXPECT_FALSE(reader.has_begun());
      auto first = std::as_bytes(std::span(text)).first(cut);
      auto second = std::as_bytes(std::span(text)).subspan(cut);
      const bool whole = reader.take(first);
      EXPECT_EQ(whole, cut >= message_prefix::bytes);
      EXPECT_EQ(reader.has_begun(), cut > 0);
      if (!whole) {
        EXPECT_TRUE(first.empty());
        EXPECT_TRUE(reader.take(second));
      }
      EXPECT_EQ(reader.get().flag, 1);
      EXPECT_EQ(reader.get().size, size);
      EXPECT_EQ(first.size() + second.size(), 4U) << "what follows is left";
    }
  }
}

TEST(framing, a_reader_is_used_again) {
  prefix_reader reader;
  for (const std::uint32_t size : {7U, 8U}) {
    const std::string text = written(0, size);
    auto bytes = std::as_bytes(std::span(text));
    EXPECT_TRUE(reader.take(bytes));
    EXPECT_EQ(reader.get().size, size);
    reader.clear();
    EXPECT_FALSE(reader.has_begun());
  }
}

}  // namespace
}  // namespace bwos::server::rpc
