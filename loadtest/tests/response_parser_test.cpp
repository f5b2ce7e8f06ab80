// SPDX-License-Identifier: Apache-2.0
#include "response_parser.hpp"

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

namespace {

using bwos::load::response;
using bwos::load::response_parser;
using result = response_parser::result;

const std::string first =
    "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 13\r\n\r\nHello, World!";
const std::string empty = "HTTP/1.1 404 Not Found\r\ncontent-length:0\r\n\r\n";
const std::string last =
    "HTTP/1.1 200 OK\r\nCONTENT-LENGTH:  4 \r\nConnection: close\r\n\r\n\r\n\r\n";

// Feeds the pieces one after the other; every answer found, or nothing after a malformed one.
std::vector<response> parse(const std::vector<std::string_view>& pieces, bool& malformed) {
  std::vector<response> found;
  response_parser parser;
  malformed = false;
  for (std::string_view piece : pieces) {
    while (!piece.empty()) {
      const result state = parser.feed(piece);
      if (state == result::complete) found.push_back(parser.answer());
      if (state == result::malformed) {
        malformed = true;
        return found;
      }
    }
  }
  return found;
}

void expect_the_three(const std::vector<response>& found, std::size_t split) {
  ASSERT_EQ(found.size(), 3U) << "split at " << split;
  EXPECT_EQ(found[0].status, 200);
  EXPECT_EQ(found[0].body_bytes, 13U);
  EXPECT_FALSE(found[0].closes);
  EXPECT_EQ(found[1].status, 404);
  EXPECT_EQ(found[1].body_bytes, 0U);
  EXPECT_EQ(found[2].body_bytes, 4U);
  EXPECT_TRUE(found[2].closes);
}

TEST(response_parser, finds_three_answers_split_at_every_byte) {
  const std::string all = first + empty + last;
  const std::string_view view = all;
  for (std::size_t split = 0; split <= all.size(); ++split) {
    bool malformed = false;
    expect_the_three(parse({view.substr(0, split), view.substr(split)}, malformed), split);
    EXPECT_FALSE(malformed);
  }
}

TEST(response_parser, finds_three_answers_split_at_every_two_bytes) {
  const std::string all = first + empty + last;
  const std::string_view view = all;
  for (std::size_t a = 0; a <= all.size(); ++a) {
    for (std::size_t b = a; b <= all.size(); ++b) {
      bool malformed = false;
      expect_the_three(parse({view.substr(0, a), view.substr(a, b - a), view.substr(b)}, malformed),
                       a);
    }
  }
}

TEST(response_parser, finds_three_answers_byte_by_byte) {
  const std::string all = first + empty + last;
  std::vector<std::string_view> pieces;
  for (std::size_t i = 0; i < all.size(); ++i) pieces.push_back(std::string_view(all).substr(i, 1));
  bool malformed = false;
  expect_the_three(parse(pieces, malformed), 1);
}

TEST(response_parser, an_answer_is_not_complete_before_its_last_byte) {
  response_parser parser;
  std::string_view most = std::string_view(first).substr(0, first.size() - 1);
  EXPECT_EQ(parser.feed(most), result::incomplete);
  std::string_view rest = "!";
  EXPECT_EQ(parser.feed(rest), result::complete);
}

TEST(response_parser, refuses_what_is_not_an_answer_with_a_length) {
  for (const std::string_view bad :
       {"SSH-2.0-x\r\n\r\n", "HTTP/1.1 200 OK\r\n\r\n", "HTTP/1.1 OK\r\nContent-Length: 1\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"}) {
    bool malformed = false;
    parse({bad}, malformed);
    EXPECT_TRUE(malformed) << bad;
  }
}

TEST(response_parser, refuses_a_head_that_never_ends) {
  response_parser parser;
  const std::string line(1024, 'a');
  result state = result::incomplete;
  for (std::size_t taken = 0; taken <= response_parser::head_bytes_max; taken += line.size()) {
    ASSERT_EQ(state, result::incomplete);
    std::string_view bytes = line;
    state = parser.feed(bytes);
  }
  EXPECT_EQ(state, result::malformed);
}

}  // namespace
