// SPDX-License-Identifier: Apache-2.0
#include "http/h1/parser.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "tests/net/unlimited_memory.hpp"

namespace bwos::server::h1 {
namespace {

using outcome = parser::outcome;

/// What came out of a parser, kept beyond the input.
struct seen {
  outcome what;
  status refusal = status::ok;
  method verb = method::other;
  std::string path{};
  std::string query{};
  std::string content_type{};
  std::string body{};
  bool keep_alive = false;
  bool http_1_0 = false;
  bool length_known = false;

  bool operator==(const seen&) const = default;
};

seen copy(const parser& from) {
  const request& r = from.current();
  return {.what = outcome::request,
          .verb = r.verb,
          .path = std::string(r.path),
          .query = std::string(r.query),
          .content_type = std::string(r.content_type),
          .body = std::string(r.body),
          .keep_alive = from.keep_alive(),
          .http_1_0 = from.http_1_0(),
          .length_known = r.length_known};
}

/// Feeds `pieces` one after the other, each from a buffer that dies afterwards, so that a view kept
/// by mistake is seen by the address sanitizer, and as wrong text elsewhere.
std::vector<seen> parse(const std::vector<std::string_view>& pieces,
                        const http_limits& limits = {}) {
  parser parsing(limits, server::test::unlimited_account());
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
        result.push_back({.what = what, .refusal = parsing.refusal()});
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

constexpr auto no_answer = static_cast<status>(status_count);

/// How the first request is refused; ok if it is not, no_answer if it goes on.
status first_refusal(const std::vector<seen>& all) {
  return all.empty() ? no_answer : all.front().refusal;
}
status first_refusal(std::string_view text, const http_limits& limits = {}) {
  return first_refusal(parse(text, limits));
}

struct sample {
  std::string text;
  std::vector<seen> expected;
};

seen post(std::string content_type, std::string body) {
  return {.what = outcome::request,
          .verb = method::post,
          .path = "/echo",
          .content_type = std::move(content_type),
          .body = std::move(body),
          .keep_alive = true,
          .length_known = true};
}

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
       {post("text/html; charset=x", "hello")}},
      {"POST /echo HTTP/1.1\r\n" + host +
           "Content-Length: 3\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\nabc",
       {post("", "abc")}},
      {"POST /echo HTTP/1.1\r\nContent-Type: a/b\r\nContent-Types: c\r\nContent-Typ: "
       "d\r\nContent-Type: e/f\r\n" +
           host +
           "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n6;ext=\"v\"\r\n "
           "world\r\n0\r\nContent-Type: x/y\r\n\r\n",
       {post("a/b", "hello world")}},
      {"POST /echo HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
       {post("", "")}},
      {"GET http://[::1]:80?q=1 HTTP/1.1\r\nHost: [::1]:80\r\n\r\n",
       {{.what = outcome::request,
         .verb = method::get,
         .path = "/",
         .query = "q=1",
         .keep_alive = true}}},
      {"GET / HTTP/1.1\r\nHost:\r\n\r\n", {get("/")}},
      {"GET / HTTP/1.1\r\nHost: \ta.b-c_d~1%2F:8080 \t\r\n\r\n", {get("/")}},
      {"GET / HTTP/1.7\r\n" + host + "\r\n", {get("/")}},  // as the highest that we know
      {"GET / HTTP/1.1\r\nX: a\xff\tb\r\nY:\r\n" + host + "\r\n", {get("/")}},
      {"OPTIONS * HTTP/1.1\r\n" + host + "\r\n",
       {{.what = outcome::request, .verb = method::options, .path = "*", .keep_alive = true}}},
      {"POST /echo HTTP/1.1\r\n" + host +
           "Transfer-Encoding: Chunked\r\n\r\n0a\r\n0123456789\r\n000\r\n"
           "Connection: close\r\nContent-Length: 7\r\nHost: b\r\n\r\n",
       {post("", "0123456789")}},
      {"POST /echo HTTP/1.1\r\n" + host + "Expect: 100-Continue \r\nContent-Length: 1\r\n\r\n1",
       {post("", "1")}},
      {"POST /echo HTTP/1.0\r\nExpect: x\r\nContent-Length: 1\r\nConnection: keep-alive\r\n\r\n1",
       {{.what = outcome::request,
         .verb = method::post,
         .path = "/echo",
         .body = "1",
         .keep_alive = true,
         .http_1_0 = true,
         .length_known = true}}},
      {"POST /echo HTTP/1.1\r\n" + host + "\r\n",
       {{.what = outcome::request, .verb = method::post, .path = "/echo", .keep_alive = true}}},
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
  parser parsing(limits, server::test::unlimited_account());
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
  parser parsing(limits, server::test::unlimited_account());
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
    parser parsing(limits, server::test::unlimited_account());
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
  parser with_body(limits, server::test::unlimited_account());
  with_body.feed(head + "a");
  EXPECT_FALSE(with_body.wants_continue());
  parser old(limits, server::test::unlimited_account());
  old.feed("POST / HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n");
  EXPECT_FALSE(old.wants_continue());
}

/// Behind what is refused: if any of it were answered, requests could be smuggled.
const std::string behind = "GET /behind HTTP/1.1\r\nHost: a\r\n\r\n";

/// However it is cut, nothing is read but the refusal.
void expect_refused(const std::string& text, status why) {
  const std::vector<seen> expected{{.what = outcome::refused, .refusal = why}};
  const std::string whole = text + behind;
  const std::string_view view = whole;
  EXPECT_EQ(parse(view), expected) << text;
  for (std::size_t cut = 1; cut < view.size(); ++cut)
    EXPECT_EQ(parse({view.substr(0, cut), view.substr(cut)}), expected)
        << text << " cut at " << cut;
  std::vector<std::string_view> bytes;
  for (std::size_t i = 0; i < view.size(); ++i) bytes.push_back(view.substr(i, 1));
  EXPECT_EQ(parse(bytes), expected) << text << " byte by byte";
}

void expect_refused(const std::vector<std::string>& texts, status why) {
  for (const std::string& text : texts) expect_refused(text, why);
}

TEST(parser, refuses_what_is_no_request_line) {
  expect_refused(
      {
          "bad\r\n\r\n",
          "\x16\x03\x01\r\n\r\n",
          "GET\r\n\r\n",
          "GET /\r\n\r\n",
          "GET  / HTTP/1.1\r\nHost: a\r\n\r\n",
          "GET /  HTTP/1.1\r\nHost: a\r\n\r\n",
          " GET / HTTP/1.1\r\nHost: a\r\n\r\n",
          "GET\t/ HTTP/1.1\r\nHost: a\r\n\r\n",
          "G(T / HTTP/1.1\r\nHost: a\r\n\r\n",
          "GET / HTTP/1.1 \r\nHost: a\r\n\r\n",
          "GET / HTTP/11\r\nHost: a\r\n\r\n",
          "GET / HTTP/1.10\r\nHost: a\r\n\r\n",
          "GET / HTTP/1.x\r\nHost: a\r\n\r\n",
          "GET / http/1.1\r\nHost: a\r\n\r\n",
          "GET / RTSP/1.1\r\nHost: a\r\n\r\n",
          "GET /a b HTTP/1.1\r\nHost: a\r\n\r\n",
          "GET /a\x01 HTTP/1.1\r\nHost: a\r\n\r\n",
          "GET /a\x80 HTTP/1.1\r\nHost: a\r\n\r\n",
      },
      status::bad_request);
}

TEST(parser, refuses_a_first_line_as_soon_as_it_has_come) {
  EXPECT_EQ(first_refusal("\x16"), status::bad_request);
  EXPECT_EQ(first_refusal("SSH-2.0-x\r\n"), status::bad_request);
  EXPECT_EQ(first_refusal("GET / HTTP/1.1\n"), status::bad_request);
  EXPECT_EQ(first_refusal("NONSENSE / HTTP/1.1\r\n"), status::not_implemented);
  EXPECT_EQ(first_refusal("GET / HTTP/2.0\r\n"), status::version_not_supported);
  EXPECT_EQ(first_refusal("GET / HTTP/1.1\r\n"), no_answer);
  // Also where the fault that is met first lies behind it.
  expect_refused("NONSENSE / HTTP/1.1\r\n folded: x\r\n\r\n", status::not_implemented);
  expect_refused("GET / HTTP/3.0\r\nbare: x\n\r\n", status::version_not_supported);
}

TEST(parser, refuses_a_target_of_another_form_than_its_method_has) {
  const std::string rest = " HTTP/1.1\r\nHost: a\r\n\r\n";
  for (const char* target : {"*", "*x", "a:80", "/a#b", "/a?b#c", "http://", "http:///a",
                             "http://a b/", "http://a@b/", "http://a:x/", "http:/a", "http://a#b"})
    expect_refused("GET " + std::string(target) + rest, status::bad_request);
  expect_refused("OPTIONS *x" + rest, status::bad_request);
}

TEST(parser, refuses_lines_that_do_not_end_as_they_should) {
  const std::string start = "GET / HTTP/1.1\r\nHost: a\r\n";
  expect_refused(
      {
          "\nGET / HTTP/1.1\r\nHost: a\r\n\r\n",
          "\rGET / HTTP/1.1\r\nHost: a\r\n\r\n",
          "\r\n\nGET / HTTP/1.1\r\nHost: a\r\n\r\n",
          "\r\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n",
          "GET / HTTP/1.1\nHost: a\r\n\r\n",
          "GET / HTTP/1.1\rHost: a\r\n\r\n",
          "GET / HTTP/1.1\r\r\nHost: a\r\n\r\n",
          "GET / HTTP/1.1\n\n",
          start + "X: b\n\r\n",
          start + "X: b\r\r\n\r\n",
          start + "X: b\rc\r\n\r\n",
          start + "X: b\r\n\n",
          start + "X:\n\r\n",
          start + "X:\r\r\n\r\n",
          start + "X\n\r\n",
          start + "\n",
          start + "\rX: b\r\n\r\n",
          start + "\r\r\n",
      },
      status::bad_request);
}

TEST(parser, refuses_lines_that_go_on_with_the_next) {
  expect_refused(
      {
          "GET / HTTP/1.1\r\n Host: a\r\n\r\n",
          "GET / HTTP/1.1\r\n\tHost: a\r\n\r\n",
          "GET / HTTP/1.1\r\nHost: a\r\n b\r\n\r\n",
          "GET / HTTP/1.1\r\nHost: a\r\n\tb\r\n\r\n",
          "GET / HTTP/1.1\r\nHost: a\r\nX:\r\n b\r\n\r\n",
          "GET / HTTP/1.1\r\nHost: a\r\nX: b\r\n \r\n\r\n",
          "GET / HTTP/1.1\r\nHost:\r\n a\r\n\r\n",
          "POST / HTTP/1.1\r\nHost: a\r\nContent-Length:\r\n 3\r\n\r\nabc",
          "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n",
          "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n x\r\n\r\n0\r\n\r\n",
      },
      status::bad_request);
}

TEST(parser, refuses_malformed_fields) {
  const std::string start = "GET / HTTP/1.1\r\nHost: a\r\n";
  for (const char* line :
       {"X : b", "X\t: b", ": b", ":", "X", "X b", "X y: b", "X(: b", "X\x01: b", "X\x7f: b",
        "X\xe9: b", "\"X\": b", "X: b\x01", "X: \x7f", "X: a\x0b", "X: \x1b[0m"})
    expect_refused(start + line + "\r\n\r\n", status::bad_request);
  expect_refused(start + std::string("X: a\0b\r\n\r\n", 10), status::bad_request);
  expect_refused(start + std::string("X\0: a\r\n\r\n", 9), status::bad_request);
}

TEST(parser, refuses_an_ambiguous_or_malformed_length) {
  const std::string start = "POST / HTTP/1.1\r\nHost: a\r\n";
  for (const char* value :
       {"", " ", "x", "-1", "+1", "0x1", "1 1", "1,1", "1, 1", "1;", ",1", "1.0", "\"1\"", "1e0",
        "18446744073709551616", "99999999999999999999", "340282366920938463463374607431768211457"})
    expect_refused(start + "Content-Length: " + value + "\r\n\r\na", status::bad_request);
  expect_refused(
      {
          start + "Content-Length: 1\r\nContent-Length: 2\r\n\r\na",
          start + "Content-Length: 1\r\nContent-Length: 1\r\n\r\na",
          start + "Content-Length: 0\r\ncontent-length: 0\r\n\r\n",
          start + "Content-Length: 1\r\nX: y\r\nContent-Length:\r\n\r\na",
          start + "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
          start + "Transfer-Encoding: chunked\r\nContent-Length: 0\r\n\r\n0\r\n\r\n",
          start + "Transfer-Encoding: gzip, chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
          start + "Content-Length: 1\r\nTransfer-Encoding:\r\n\r\na",
      },
      status::bad_request);
}

TEST(parser, refuses_a_coding_that_does_not_end_with_chunked_once) {
  const std::string start = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: ";
  for (const char* value :
       {"", "gzip", "identity", "xchunked", "chunkedx", "chunked x", "chunked, gzip", "chunked,",
        "chunked, chunked", "gzip, chunked, chunked", "chunked, identity", "chunked;q=1",
        "\"chunked\"", "chunked\r\nTransfer-Encoding: chunked",
        "chunked\r\nTransfer-Encoding: gzip", "chun\r\nTransfer-Encoding: ked", "chunked\x0b",
        "\x0b"
        "chunked"})
    expect_refused(start + value + "\r\n\r\n0\r\n\r\n", status::bad_request);
  expect_refused("POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
                 status::bad_request);
}

TEST(parser, does_not_implement_codings_before_chunked) {
  const std::string start = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: ";
  for (const char* value : {"gzip, chunked", "gzip,chunked", "identity, chunked", "x, y, chunked",
                            "gzip\r\nTransfer-Encoding: chunked"})
    expect_refused(start + value + "\r\n\r\n0\r\n\r\n", status::not_implemented);
}

TEST(parser, refuses_malformed_chunks) {
  const std::string start = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
  for (const char* chunks : {"xyz\r\n",
                             "\r\na\r\n",
                             ";x\r\na\r\n",
                             "+1\r\na\r\n",
                             "-1\r\na\r\n",
                             "0x1\r\na\r\n",
                             "1 \r\na\r\n",
                             " 1\r\na\r\n",
                             "1\t\r\na\r\n",
                             "1 ;x\r\na\r\n",
                             "1\na\r\n",
                             "1\ra\r\n",
                             "1\r\r\na\r\n",
                             "10000000000000000\r\na\r\n",
                             "10000000000000001\r\na\r\n",
                             "1\r\nab\r\n",
                             "1\r\na\n",
                             "1\r\na\r",
                             "1\r\na0\r\n\r\n",
                             "2\r\nabc\r\n0\r\n\r\n",
                             "1;x\na\r\n",
                             "1;x\ry\r\na\r\n",
                             "1;\r\na\r\n",
                             "1;x=\x01\r\na\r\n",
                             "1; x\r\na\r\n",
                             "0\n\r\n",
                             "0\r\n\n",
                             "0\r\n\r\r\n",
                             "0\r\nX: b\r\n\n",
                             "0\r\nX: b\n\r\n",
                             "0\r\nX : b\r\n\r\n",
                             "0\r\n: b\r\n\r\n",
                             "0\r\n X: b\r\n\r\n",
                             "0\r\nX: b\r\n c\r\n\r\n",
                             "0\r\nX:\r\n c\r\n\r\n",
                             "0\r\nX: b\r\n \r\n\r\n",
                             "0\r\nX\r\n\r\n",
                             "0\r\nX: \x01\r\n\r\n",
                             "0\r\nTransfer-Encoding: chunked\r\n\r\n",
                             "0\r\nContent-Length: x\r\n\r\n"})
    expect_refused(start + chunks, status::bad_request);
}

TEST(parser, wants_one_well_formed_host) {
  const std::string start = "GET / HTTP/1.1\r\n";
  expect_refused(
      {
          start + "\r\n",
          start + "X: a\r\n\r\n",
          start + "Host: a\r\nHost: b\r\n\r\n",
          start + "Host: a\r\nX: y\r\nhost: a\r\n\r\n",
          start + "Host: a\r\nHost:\r\n\r\n",
          "GET http://a/ HTTP/1.1\r\n\r\n",
          "GET / HTTP/1.0\r\nHost: a\r\nHost: a\r\n\r\n",
          "GET / HTTP/1.0\r\nHost: a b\r\n\r\n",
      },
      status::bad_request);
  for (const char* value :
       {"a b",   "a/b", "a@b", "a?b",  "a#b",      "a\\b", "a:b",  "a:1:2",  "a:-1",
        ":80",   ":",   "[",   "]",    "[]",       "[::1", "::1",  "[::1]a", "[::1]:x",
        "[a/b]", "a%",  "a%2", "a%zz", "http://a", "a, b", "\xff", "<a>",    "a|b"})
    expect_refused(start + "Host: " + value + "\r\n\r\n", status::bad_request);
  for (const char* value : {"", "a", "a:", "a:80", "127.0.0.1", "127.0.0.1:8080", "[::1]",
                            "[::1]:80", "[v1.a:b]", "a_b-c.d~e", "%41", "a!$&'()*+,;=b"})
    EXPECT_EQ(first_refusal(start + "Host: " + value + "\r\n\r\n"), status::ok) << value;
}

TEST(parser, knows_the_methods_of_its_time) {
  for (const char* verb : {"GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "TRACE", "PATCH"})
    EXPECT_EQ(first_refusal(std::string(verb) + " / HTTP/1.1\r\nHost: a\r\n\r\n"), status::ok)
        << verb;
  // Some of these llhttp knows, as methods of other protocols among them.
  for (const char* verb : {"NONSENSE", "get", "GETT", "GE", "G", "PROPFIND", "M-SEARCH", "SOURCE",
                           "DESCRIBE", "PRI", "FLUSH", "!#$%&'*+-.^_`|~"})
    expect_refused(std::string(verb) + " / HTTP/1.1\r\nHost: a\r\n\r\n", status::not_implemented);
  expect_refused("CONNECT a:80 HTTP/1.1\r\nHost: a:80\r\n\r\n", status::method_not_allowed);
}

TEST(parser, knows_http_1) {
  for (const char* version : {"0.9", "2.0", "2.1", "3.0", "9.9"})
    expect_refused("GET / HTTP/" + std::string(version) + "\r\nHost: a\r\n\r\n",
                   status::version_not_supported);
  expect_refused("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", status::version_not_supported);
}

TEST(parser, expects_nothing_but_100_continue) {
  const std::string start = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nExpect: ";
  for (const char* value : {"100-continued", "100-continu", "x", "100-continue, x", "200-ok",
                            "100-continue\r\nExpect: x", "x\r\nExpect: 100-continue"})
    expect_refused(start + value + "\r\n\r\nab", status::expectation_failed);
}

TEST(parser, reads_nothing_behind_an_error) {
  const auto all =
      parse("GET / HTTP/1.1\r\nHost: a\r\n\r\nbad\r\n\r\nGET /later HTTP/1.1\r\nHost: a\r\n\r\n");
  ASSERT_EQ(all.size(), 2U);
  EXPECT_EQ(all[0], get("/"));
  EXPECT_EQ(all[1].refusal, status::bad_request);
}

TEST(parser, limits_the_header_wherever_it_is_cut) {
  const http_limits limits{.header_bytes_max = 100};
  const std::string start = "GET / HTTP/1.1\r\nHost: a\r\nX: ";
  const std::string fits = start + std::string(100 - start.size() - 4, 'x') + "\r\n\r\n";
  const std::string exceeds = start + std::string(101 - start.size(), 'x') + "\r\n\r\n";
  for (std::size_t cut = 1; cut < 100; ++cut) {
    const auto split = [&](std::string_view text) {
      return first_refusal(parse({text.substr(0, cut), text.substr(cut)}, limits));
    };
    EXPECT_EQ(split(fits), status::ok) << cut;
    EXPECT_EQ(split(exceeds), status::header_fields_too_large) << cut;
  }
  EXPECT_EQ(first_refusal("GET / HTTP/1.1\r\n" + std::string(200, 'x'), limits),
            status::header_fields_too_large);
}

TEST(parser, limits_the_request_line_wherever_it_is_cut) {
  const http_limits limits{.header_bytes_max = 100};
  const std::string fits = "GET /" + std::string(100 - 26, 'x') + " HTTP/1.1\r\nHost:a\r\n\r\n";
  const std::string exceeds = "GET /" + std::string(200, 'x') + " HTTP/1.1\r\nHost:a\r\n\r\n";
  ASSERT_EQ(fits.size(), 100U);
  for (std::size_t cut = 1; cut < 100; ++cut) {
    const auto split = [&](std::string_view text) {
      return first_refusal(parse({text.substr(0, cut), text.substr(cut)}, limits));
    };
    EXPECT_EQ(split(fits), status::ok) << cut;
    EXPECT_EQ(split(exceeds), status::uri_too_long) << cut;
  }
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
  EXPECT_EQ(first_refusal(head + "Content-Length: 4\r\n\r\n1234", limits), status::ok);
  EXPECT_EQ(first_refusal(head + "Content-Length: 5\r\n\r\n", limits), status::payload_too_large);
  EXPECT_EQ(first_refusal(
                head + "Transfer-Encoding: chunked\r\n\r\n2\r\nab\r\n2\r\ncd\r\n0\r\n\r\n", limits),
            status::ok);
  EXPECT_EQ(first_refusal(head + "Transfer-Encoding: chunked\r\n\r\n2\r\nab\r\n3\r\n", limits),
            status::payload_too_large);
  EXPECT_EQ(first_refusal(head + "Transfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n", limits),
            status::payload_too_large);
}

/// What a parser that charges `account` makes of it: a request, or why it refuses.
status outcome_with(memory_account& account, std::string_view text) {
  const http_limits limits;
  parser parsing(limits, account);
  while (!text.empty()) {
    const std::string_view piece = text.substr(0, 1000);
    const auto [what, used] = parsing.feed(piece);
    if (what == outcome::refused) return parsing.refusal();
    if (what == outcome::request) return status::ok;
    text.remove_prefix(used);
  }
  return status::ok;
}

TEST(parser, refuses_what_there_is_no_memory_for) {
  memory_budget memory(16 * 1024 * 1024);
  memory_account account(memory, -1, 0);
  const std::string get = "GET /plaintext HTTP/1.1\r\nHost: a\r\n\r\n";
  const std::string body(200'000, 'b');
  const std::string head = "POST / HTTP/1.1\r\nHost: a\r\n";
  const std::string post = head + "Content-Length: 200000\r\n\r\n" + body;
  const std::string chunked = head + "Transfer-Encoding: chunked\r\n\r\n30d40\r\n" + body;
  const std::string small = head + "Content-Length: 2000\r\n\r\n" + body.substr(0, 2000);
  for (const auto& each : {get, post, chunked, small}) {
    EXPECT_EQ(outcome_with(account, each), status::ok);
  }
  memory.take_anyway(memory::output, 13 * 1024 * 1024);  // more than three quarters
  EXPECT_EQ(outcome_with(account, post), status::service_unavailable);
  EXPECT_EQ(outcome_with(account, chunked), status::service_unavailable);
  EXPECT_EQ(outcome_with(account, small), status::ok);
  const std::string cut = head + "Content-Length: 60000\r\n\r\n" + body.substr(0, 50'000);
  memory_budget full(1024 * 1024);
  memory_account last(full, -1, 0);
  std::size_t taken = 0;
  while (full.take(memory::output, memory_budget::granule)) taken += memory_budget::granule;
  EXPECT_EQ(outcome_with(last, get), status::ok);
  EXPECT_EQ(outcome_with(last, cut + cut), status::service_unavailable);
  full.give_back(memory::output, taken);
  EXPECT_EQ(outcome_with(last, cut), status::ok);
}

TEST(parser, limits_trailers_and_chunk_extensions) {
  const http_limits limits{.header_bytes_max = 64};
  const std::string head = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
  EXPECT_EQ(first_refusal(head + "0\r\nA: " + std::string(100, 'x') + "\r\n\r\n", limits),
            status::header_fields_too_large);
  EXPECT_EQ(first_refusal(head + "1;" + std::string(100, 'x') + "\r\na\r\n", limits),
            status::header_fields_too_large);
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
}  // namespace bwos::server::h1
