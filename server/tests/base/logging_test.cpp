// SPDX-License-Identifier: Apache-2.0
#include "base/logging.hpp"

#include <gtest/gtest.h>
#include <spdlog/details/log_msg.h>

#include <chrono>
#include <string>

namespace bwos::server {
namespace {

std::string line_of(log_format format, std::string_view message,
                    spdlog::level::level_enum level = spdlog::level::info) {
  const auto at = spdlog::log_clock::time_point(std::chrono::milliseconds(1'000'000'000'042));
  spdlog::memory_buf_t line;
  make_formatter(format)->format({at, {}, "bwos", level, message}, line);
  return {line.begin(), line.end()};
}

TEST(logging, json_has_time_level_and_message) {
  EXPECT_EQ(line_of(log_format::json, "hello"),
            "{\"time\":\"2001-09-09T01:46:40.042Z\",\"level\":\"info\",\"message\":\"hello\"}\n");
  EXPECT_NE(line_of(log_format::json, "", spdlog::level::warn).find("\"level\":\"warning\""),
            std::string::npos);
}

TEST(logging, json_escapes_what_would_end_or_break_the_string) {
  const std::string all = line_of(log_format::json, std::string_view("\"\\\n\t\x1f\0/\x7fé", 10));
  EXPECT_NE(all.find(R"("message":"\"\\\u000a\u0009\u001f\u0000/)"
                     "\x7fé\"}\n"),
            std::string::npos)
      << all;
}

TEST(logging, text_is_as_ever) {
  const std::string line = line_of(log_format::text, "a \"b\"");
  EXPECT_TRUE(line.ends_with(" [bwos] [info] a \"b\"\n")) << line;
}

}  // namespace
}  // namespace bwos::server
