// SPDX-License-Identifier: Apache-2.0
#include "http1/parser.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

namespace bwos::server::http1 {
namespace {

using outcome = parser::outcome;

/// What came out of a parser, kept beyond the input.
struct seen {
  outcome what;
  method verb = method::other;
  std::string path{};
  std::string query{};
  std::string content_type{};
  std::string body{};
  bool keep_alive = false;
  bool http_1_0 = false;

  bool operator==(const seen&) const = default;
};

seen copy(const parser& from) {
  const request& r = from.current();
  return {outcome::request,
          r.verb,
          std::string(r.path),
          std::string(r.query),
          std::string(r.content_type),
          std::string(r.body),
          from.keep_alive(),
          from.http_1_0()};
}

/// Feeds `pieces` one after the other, each from a buffer that dies afterwards, so that a view kept
/// by mistake is seen by the address sanitizer, and as wrong text elsewhere.
std::vector<seen> parse(const std::vector<std::string_view>& pieces,
                        const http_limits& limits = {}) {
  parser parsing(limits);
  std::vector<seen> result;
  for (const std::string_view piece : pieces) {
    const auto buffer = std::make_unique<char[]>(piece.size());
    std::memcpy(buffer.get(), piece.data(), piece.size());
    std::string_view rest(buffer.get(), piece.size());
    while (!rest.empty()) {
      const auto [what, consumed] = parsing.feed(rest);
      EXPECT_LE(consumed, rest.size());
      rest.remove_prefix(consumed);
      if (what == outcome::incomplete) {
        EXPECT_TRUE(rest.empty());
      } else if (what == outcome::request) {
        EXPECT_GT(consumed, 0U);
        result.push_back(copy(parsing));
        parsing.release();
      } else {
        result.push_back({.what = what});
        return result;
      }
    }
    std::memset(buffer.get(), '#', piece.size());
  }
  return result;
}

std::vector<seen> parse(std::string_view whole, const http_limits& limits = {}) {
  return parse(std::vector{whole}, limits);
}

outcome first_outcome(std::string_view text, const http_limits& limits = {}) {
  const auto all = parse(text, limits);
  return all.empty() ? outcome::incomplete : all.front().what;
}

struct sample {
  std::string text;
  std::vector<seen> expected;
};

seen get(std::string path, bool keep_alive = true) {
  return {.what = outcome::request,
          .verb = method::get,
          .path = std::move(path),
          .keep_alive = keep_alive};
}

std::vector<sample> samples() {
  const std::string host = "Host: a\r\n";
  return {
      {"GET /plaintext HTTP/1.1\r\n" + host + "\r\n", {get("/plaintext")}},
      {"\r\n\r\nGET / HTTP/1.1\r\n" + host + "\r\n", {get("/")}},
      {"HEAD /x HTTP/1.1\r\n" + host + "\r\n",
       {{.what = outcome::request, .verb = method::head, .path = "/x", .keep_alive = true}}},
      {"GET /work?us=200&x HTTP/1.1\r\n" + host + "\r\n",
       {{.what = outcome::request,
         .verb = method::get,
         .path = "/work",
         .query = "us=200&x",
         .keep_alive = true}}},
      {"GET http://a.example:80/echo?b HTTP/1.1\r\n" + host + "\r\n",
       {{.what = outcome::request,
         .verb = method::get,
         .path = "/echo",
         .query = "b",
         .keep_alive = true}}},
      {"GET http://a.example HTTP/1.1\r\n" + host + "\r\n", {get("/")}},
      {"GET / HTTP/1.1\r\nConnection: close\r\n" + host + "\r\n", {get("/", false)}},
      {"GET / HTTP/1.1\r\n" + host + "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n\r\n",
       {get("/")}},
      {"GET / HTTP/1.0\r\n\r\n",
       {{.what = outcome::request,
         .verb = method::get,
         .path = "/",
         .keep_alive = false,
         .http_1_0 = true}}},
      {"GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n",
       {{.what = outcome::request,
         .verb = method::get,
         .path = "/",
         .keep_alive = true,
         .http_1_0 = true}}},
      {"POST /echo HTTP/1.1\r\n" + host +
           "CONTENT-TYPE: \ttext/html; charset=x \r\nContent-Length: 5\r\n\r\nhello",
       {{outcome::request, method::post, "/echo", "", "text/html; charset=x", "hello", true,
         false}}},
      {"POST /echo HTTP/1.1\r\n" + host +
           "Content-Length: 3\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\nabc",
       {{outcome::request, method::post, "/echo", "", "", "abc", true, false}}},
      {"POST /echo HTTP/1.1\r\nContent-Type: a/b\r\nContent-Types: c\r\nContent-Typ: "
       "d\r\nContent-Type: e/f\r\n" +
           host +
           "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n6;ext=\"v\"\r\n "
           "world\r\n0\r\nContent-Type: x/y\r\n\r\n",
       {{outcome::request, method::post, "/echo", "", "a/b", "hello world", true, false}}},
      {"POST /echo HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
       {{outcome::request, method::post, "/echo", "", "", "", true, false}}},
      {"DELETE /echo HTTP/1.1\r\n" + host + "\r\n",
       {{.what = outcome::request, .verb = method::other, .path = "/echo", .keep_alive = true}}},
  };
}

TEST(parser, reads_every_sample) {
  for (const sample& each : samples()) EXPECT_EQ(parse(each.text), each.expected) << each.text;
}

TEST(parser, reads_every_sample_split_at_every_byte) {
  for (const sample& each : samples()) {
    const std::string_view text = each.text;
    for (std::size_t cut = 1; cut < text.size(); ++cut) {
      EXPECT_EQ(parse({text.substr(0, cut), text.substr(cut)}), each.expected)
          << each.text << " cut at " << cut;
    }
  }
}

TEST(parser, reads_every_sample_byte_by_byte) {
  for (const sample& each : samples()) {
    std::vector<std::string_view> bytes;
    for (std::size_t i = 0; i < each.text.size(); ++i)
      bytes.push_back(std::string_view(each.text).substr(i, 1));
    EXPECT_EQ(parse(bytes), each.expected) << each.text;
  }
}

TEST(parser, slices_pipelined_requests_wherever_the_input_is_cut) {
  std::string text;
  std::vector<seen> expected;
  for (const sample& each : samples()) {
    if (!each.expected.front().keep_alive) continue;
    text += each.text;
    expected.push_back(each.expected.front());
  }
  ASSERT_GT(expected.size(), 5U);
  const std::string_view all = text;
  EXPECT_EQ(parse(all), expected);
  for (std::size_t cut = 1; cut < all.size(); ++cut) {
    EXPECT_EQ(parse({all.substr(0, cut), all.substr(cut)}), expected) << "cut at " << cut;
  }
}

TEST(parser, describes_a_whole_request_by_views_into_the_input) {
  const std::string text =
      "POST /echo?q HTTP/1.1\r\nHost: a\r\nContent-Type: a/b\r\nContent-Length: 2\r\n\r\nhi";
  const http_limits limits;
  parser parsing(limits);
  ASSERT_EQ(parsing.feed(text).what, outcome::request);
  const auto inside = [&](std::string_view view) {
    return view.data() >= text.data() && view.data() + view.size() <= text.data() + text.size();
  };
  EXPECT_TRUE(inside(parsing.current().path));
  EXPECT_TRUE(inside(parsing.current().query));
  EXPECT_TRUE(inside(parsing.current().content_type));
  EXPECT_TRUE(inside(parsing.current().body));
}

TEST(parser, is_small_enough_for_ten_thousand_idle_connections) {
  EXPECT_LE(sizeof(parser), 400U);
}

TEST(parser, says_what_it_waits_for) {
  const http_limits limits;
  parser parsing(limits);
  EXPECT_EQ(parsing.where(), parser::phase::idle);
  parsing.feed("\r\n");
  EXPECT_EQ(parsing.where(), parser::phase::idle);
  parsing.feed("P");
  EXPECT_EQ(parsing.where(), parser::phase::header);
  parsing.feed("OST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r");
  EXPECT_EQ(parsing.where(), parser::phase::header);
  parsing.feed("\n");
  EXPECT_EQ(parsing.where(), parser::phase::body);
  EXPECT_EQ(parsing.feed("ab").what, outcome::request);
  parsing.release();
  EXPECT_EQ(parsing.where(), parser::phase::idle);
}

TEST(parser, wants_continue_until_told_or_sent_a_body) {
  const std::string head =
      "POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-Continue\r\nContent-Length: 2\r\n\r\n";
  for (std::size_t cut = 0; cut <= head.size(); ++cut) {
    const http_limits limits;
    parser parsing(limits);
    if (cut > 0) parsing.feed(std::string_view(head).substr(0, cut));
    if (cut < head.size()) {
      EXPECT_FALSE(parsing.wants_continue()) << cut;
      parsing.feed(std::string_view(head).substr(cut));
    }
    EXPECT_TRUE(parsing.wants_continue()) << cut;
    parsing.continue_sent();
    EXPECT_FALSE(parsing.wants_continue());
  }
  const http_limits limits;
  parser with_body(limits);
  with_body.feed(head + "a");
  EXPECT_FALSE(with_body.wants_continue());
  parser old(limits);
  old.feed("POST / HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n");
  EXPECT_FALSE(old.wants_continue());
  parser other(limits);
  other.feed("POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continued\r\nContent-Length: 2\r\n\r\n");
  EXPECT_FALSE(other.wants_continue());
}

TEST(parser, refuses_what_is_no_http) {
  const std::vector<std::string> bad{
      "NONSENSE / HTTP/1.1\r\nHost: a\r\n\r\n",
      "GET /\r\n\r\n",
      "GET / HTTP/0.9\r\n\r\n",
      "GET / HTTP/1.2\r\nHost: a\r\n\r\n",
      "GET / HTTP/2.0\r\nHost: a\r\n\r\n",
      "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
      "GET / HTTP/1.1\nHost: a\n\n",
      "GET / HTTP/1.1\r\nHost : a\r\n\r\n",
      "GET / HTTP/1.1\r\nHost: a\r\nb\x01: c\r\n\r\n",
      "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: x\r\n\r\n",
      "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n",
      "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999999999999999\r\n\r\n",
      "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nab",
      "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nContent-Length: 2\r\n\r\n",
      "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip\r\n\r\n",
      "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
      "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nabc\r\n0\r\n\r\n",
      "CONNECT a:80 HTTP/1.1\r\nHost: a\r\n\r\n",
      "GET / HTTP/1.1\r\n\r\n",
      "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
  };
  for (const std::string& text : bad) {
    EXPECT_EQ(first_outcome(text), outcome::malformed) << text;
    for (std::size_t cut = 1; cut < text.size(); ++cut) {
      const std::string_view view = text;
      const auto all = parse({view.substr(0, cut), view.substr(cut)});
      ASSERT_EQ(all.size(), 1U) << text << " cut at " << cut;
      EXPECT_EQ(all.front().what, outcome::malformed) << text << " cut at " << cut;
    }
  }
}

TEST(parser, reads_nothing_behind_an_error) {
  const auto all =
      parse("GET / HTTP/1.1\r\nHost: a\r\n\r\nbad\r\n\r\nGET /later HTTP/1.1\r\nHost: a\r\n\r\n");
  ASSERT_EQ(all.size(), 2U);
  EXPECT_EQ(all[0], get("/"));
  EXPECT_EQ(all[1].what, outcome::malformed);
}

TEST(parser, limits_the_header_wherever_it_is_cut) {
  const http_limits limits{.header_bytes_max = 100};
  const std::string start = "GET / HTTP/1.1\r\nHost: a\r\nX: ";
  const std::string fits = start + std::string(100 - start.size() - 4, 'x') + "\r\n\r\n";
  const std::string exceeds = start + std::string(101 - start.size(), 'x') + "\r\n\r\n";
  for (std::size_t cut = 1; cut < 100; ++cut) {
    const auto split = [&](std::string_view text) {
      const auto all = parse({text.substr(0, cut), text.substr(cut)}, limits);
      return all.empty() ? outcome::incomplete : all.front().what;
    };
    EXPECT_EQ(split(fits), outcome::request) << cut;
    EXPECT_EQ(split(exceeds), outcome::header_too_large) << cut;
  }
  EXPECT_EQ(first_outcome("GET /" + std::string(200, 'x'), limits), outcome::header_too_large);
  EXPECT_EQ(first_outcome("GET / HTTP/1.1\r\n" + std::string(200, 'x'), limits),
            outcome::header_too_large);
}

TEST(parser, limits_the_header_of_each_pipelined_request_by_itself) {
  const http_limits limits{.header_bytes_max = 64};
  std::string text;
  for (int i = 0; i < 10; ++i) text += "GET /0123456789 HTTP/1.1\r\nHost: abcdefgh\r\n\r\n";
  EXPECT_EQ(parse(text, limits).size(), 10U);
}

TEST(parser, limits_the_body_before_it_is_sent) {
  const http_limits limits{.body_bytes_max = 4};
  const std::string head = "POST / HTTP/1.1\r\nHost: a\r\n";
  EXPECT_EQ(first_outcome(head + "Content-Length: 4\r\n\r\n1234", limits), outcome::request);
  EXPECT_EQ(first_outcome(head + "Content-Length: 5\r\n\r\n", limits), outcome::body_too_large);
  EXPECT_EQ(first_outcome(
                head + "Transfer-Encoding: chunked\r\n\r\n2\r\nab\r\n2\r\ncd\r\n0\r\n\r\n", limits),
            outcome::request);
  EXPECT_EQ(first_outcome(head + "Transfer-Encoding: chunked\r\n\r\n2\r\nab\r\n3\r\n", limits),
            outcome::body_too_large);
  EXPECT_EQ(first_outcome(head + "Transfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n", limits),
            outcome::body_too_large);
}

TEST(parser, limits_trailers_and_chunk_extensions) {
  const http_limits limits{.header_bytes_max = 64};
  const std::string head = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
  EXPECT_EQ(first_outcome(head + "0\r\nA: " + std::string(100, 'x') + "\r\n\r\n", limits),
            outcome::header_too_large);
  EXPECT_EQ(first_outcome(head + "1;" + std::string(100, 'x') + "\r\na\r\n", limits),
            outcome::header_too_large);
}

TEST(parser, gathers_a_body_larger_than_every_input) {
  std::string body(300'000, 'b');
  for (std::size_t i = 0; i < body.size(); ++i) body[i] = static_cast<char>('a' + i % 26);
  const std::string text = "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 300000\r\n\r\n" +
                           body + "GET /next HTTP/1.1\r\nHost: a\r\n\r\n";
  std::vector<std::string_view> pieces;
  for (std::size_t at = 0; at < text.size(); at += 16384)
    pieces.push_back(std::string_view(text).substr(at, 16384));
  const auto all = parse(pieces);
  ASSERT_EQ(all.size(), 2U);
  EXPECT_EQ(all[0].body, body);
  EXPECT_EQ(all[1], get("/next"));
}

}  // namespace
}  // namespace bwos::server::http1
