// SPDX-License-Identifier: Apache-2.0
#include "http/h1/writer.hpp"

#include <gtest/gtest.h>

#include <string>

namespace bwos::server::h1 {
namespace {

constexpr std::string_view date = "Date: Sun, 06 Nov 1994 08:49:37 GMT\r\n";

std::string written(const response& what, framing how = {}) {
  byte_buffer to;
  write_response(to, what, how, date);
  return std::string(to.view());
}

TEST(writer, writes_status_line_headers_and_body) {
  EXPECT_EQ(written({.code = status::ok, .content_type = "a/b", .body = "hello"}),
            "HTTP/1.1 200 OK\r\n"
            "Date: Sun, 06 Nov 1994 08:49:37 GMT\r\n"
            "Content-Type: a/b\r\n"
            "Content-Length: 5\r\n"
            "\r\n"
            "hello");
}

TEST(writer, says_when_the_connection_ends) {
  const std::string text =
      written(error_response(status::payload_too_large), {.keep_alive = false});
  EXPECT_TRUE(text.starts_with("HTTP/1.1 413 Payload Too Large\r\n"));
  EXPECT_NE(text.find("\r\nConnection: close\r\n\r\n"), std::string::npos);
}

TEST(writer, says_to_http_1_0_that_the_connection_stays) {
  EXPECT_NE(written({}, {.http_1_0 = true}).find("\r\nConnection: keep-alive\r\n\r\n"),
            std::string::npos);
  EXPECT_EQ(written({}, {.http_1_0 = false}).find("Connection"), std::string::npos);
}

TEST(writer, leaves_the_body_out_for_head_but_not_its_length) {
  const std::string text = written({.body = "hello"}, {.head_only = true});
  EXPECT_NE(text.find("\r\nContent-Length: 5\r\n"), std::string::npos);
  EXPECT_TRUE(text.ends_with("\r\n\r\n"));
}

TEST(writer, names_the_allowed_methods) {
  response refusal = error_response(status::method_not_allowed);
  refusal.header = "Allow: GET, HEAD";
  const std::string text = written(refusal);
  EXPECT_TRUE(text.starts_with("HTTP/1.1 405 Method Not Allowed\r\n"));
  EXPECT_NE(text.find("\r\nAllow: GET, HEAD\r\n"), std::string::npos);
}

TEST(writer, has_a_status_line_for_every_status) {
  for (std::size_t i = 0; i < status_count; ++i) {
    const auto code = static_cast<status>(i);
    const std::string expected = "HTTP/1.1 " + std::to_string(text_of(code).code) + " " +
                                 std::string(text_of(code).reason) + "\r\n";
    EXPECT_TRUE(written(error_response(code)).starts_with(expected)) << expected;
  }
}

TEST(writer, appends_many_responses_to_one_buffer) {
  const std::string one = written({.body = "hello"});
  byte_buffer to;
  std::string expected;
  for (int i = 0; i < 1000; ++i) {
    write_response(to, {.body = "hello"}, {}, date);
    expected += one;
  }
  EXPECT_EQ(to.view(), expected);
  to.clear(1);
  EXPECT_TRUE(to.empty());
  to.append("again");
  EXPECT_EQ(to.view(), "again");
}

}  // namespace
}  // namespace bwos::server::h1
