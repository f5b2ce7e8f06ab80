// SPDX-License-Identifier: Apache-2.0
// Hosts are tested with the parser: parser_test.cpp.
#include "http/h1/syntax.hpp"

#include <gtest/gtest.h>

#include <string>

namespace bwos::server::h1 {
namespace {

TEST(syntax, knows_the_characters_of_a_token) {
  const std::string_view others = "!#$%&'*+-.^_`|~";
  for (int i = 0; i < 256; ++i) {
    const char c = static_cast<char>(i);
    const bool letter_or_digit =
        (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    const bool other = c != '\0' && others.find(c) != std::string_view::npos;
    EXPECT_EQ(is_token(c), letter_or_digit || other) << i;
  }
}

TEST(syntax, compares_letters_whatever_their_case_and_nothing_else) {
  EXPECT_TRUE(is_lower_case_of("Transfer-ENCODING", "transfer-encoding"));
  EXPECT_TRUE(is_lower_case_of("", ""));
  EXPECT_FALSE(is_lower_case_of("host", "hosts"));
  EXPECT_FALSE(is_lower_case_of("hosts", "host"));
  EXPECT_FALSE(is_lower_case_of("\rhost", "-host"));  // 32 apart, and no letters
  EXPECT_FALSE(is_lower_case_of("@", "`"));
}

TEST(syntax, judges_a_request_line) {
  EXPECT_EQ(judge_request_line("GET / HTTP/1.1\r\n"), status::ok);
  EXPECT_EQ(judge_request_line("GET \x01 HTTP/1.0\r\n"), status::ok);  // llhttp reads targets
  for (const char* line :
       {"\r\n", " \r\n", "  \r\n", "GET\r\n", "GET /\r\n", "GET  HTTP/1.1\r\n", " / HTTP/1.1\r\n",
        "GET / \r\n", "GET / HTTP/1.1 \r\n", "G,T / HTTP/1.1\r\n", "GET / / HTTP/1.1\r\n",
        "GET / HTTP/1,1\r\n", "GET / HTTPS/1.1\r\n"})
    EXPECT_EQ(judge_request_line(line), status::bad_request) << line;
  EXPECT_EQ(judge_request_line("GET / HTTP/2.0\r\n"), status::version_not_supported);
  EXPECT_EQ(judge_request_line("NONSENSE / HTTP/1.1\r\n"), status::not_implemented);
  EXPECT_EQ(judge_request_line("CONNECT a:1 HTTP/1.1\r\n"), status::method_not_allowed);
}

}  // namespace
}  // namespace bwos::server::h1
