// SPDX-License-Identifier: Apache-2.0
// HTTP over HTTP/2 by its frames: what each request is answered with, limits, and that it does not
// matter how the bytes are cut. One connection, no socket, one thread.
#include <gtest/gtest.h>
#include <helloworld.pb.h>
#include <test_service.pb.h>
#include <work.pb.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "app/services.hpp"
#include "grpc/calls.hpp"
#include "tests/grpc/calls_harness.hpp"
#include "tests/http/demo_site.hpp"
#include "tests/http/h2/frames.hpp"

namespace bwos::server::rpc::test {
namespace {

using namespace std::chrono_literals;
using rest = h2::rest;

metrics::registry& one_registry() {
  static metrics::registry one(server::test::demo_site::kinds);  // it takes milliseconds to make
  return one;
}

struct options_of_harness {
  http_limits http;
  h2::limits http2;
  bool with_calls = true;
  metrics::ticks lane_threshold = 0;
  bool hands_on = true;
  call_limits calls;
  access_log* log = nullptr;
  std::size_t memory_max = memory_budget::unlimited;
};

class http_harness {
 public:
  using clock = std::chrono::steady_clock;

  explicit http_harness(const options_of_harness& how = {})
      : times(how.lane_threshold, site.routes.count()),
        memory(how.memory_max),
        how_(how),
        tested(common_, {}, now, &context_, how.hands_on) {
    if (how.with_calls) add_services(methods_, demo_services{});
  }
  ~http_harness() {
    tested.lost();
    workers.run();
    tested.bury();
    EXPECT_FALSE(tested.has_running());
  }

  std::vector<read_frame> feed(std::string_view bytes) {
    tested.feed(std::as_bytes(std::span(bytes)), now);
    return pull();
  }
  std::vector<read_frame> look() {
    tested.look(now);
    return pull();
  }
  std::vector<read_frame> pull() {
    std::vector<read_frame> fresh;
    for (bool more = true; more;) {  // ends: with nothing to send
      more = pull_some(&fresh);
      if (more || !tested.has_left() || tested.left() != rest::nothing) continue;
      tested.look(now);  // calls that a busy machine has left for the next turn
      more = true;
    }
    return fresh;
  }
  /// One buffer's. True: there is more.
  bool pull_some(std::vector<read_frame>* into = nullptr) {
    byte_buffer output;
    const bool more = tested.pull(output);
    for (read_frame& each : reader_.read(output.view())) {
      if (into != nullptr) into->push_back(each);
      all.push_back(std::move(each));
    }
    return more;
  }
  /// Looks whenever it is due.
  void wait(clock::duration time) {
    const clock::time_point end = now + time;
    while (tested.deadline() <= end) {  // ends: each look is due later
      now = std::max(now, tested.deadline());
      look();
    }
    now = end;
  }
  std::vector<read_frame> begin(const std::string& peer_settings = "") {
    return feed(preface + frame(settings, none, 0, peer_settings) + frame(settings, ack, 0, ""));
  }
  [[nodiscard]] answer answer_to(std::uint32_t stream) const { return answers_in(all)[stream]; }
  /// Another connection of the same server.
  [[nodiscard]] std::unique_ptr<h2::endpoint> another() const {
    return std::make_unique<h2::endpoint>(common_, stream_waker{}, now, &context_);
  }
  [[nodiscard]] std::uint64_t counted(std::string_view path, server::status code) const {
    return site.counted(one_registry().total(), path, code) - site.counted(before_, path, code);
  }
  [[nodiscard]] std::int64_t charged(server::memory what) const {
    return memory.total().bytes[static_cast<std::size_t>(what)];
  }
  [[nodiscard]] std::uint64_t timeouts(metrics::timeout which) const {
    const auto at = static_cast<std::size_t>(which);
    return one_registry().total().timeouts[at] - before_.timeouts[at];
  }

  server::test::demo_site site;
  route_times times;
  std::vector<read_frame> all;
  list_executor workers;
  std::atomic<bool> leaving{false};
  memory_budget memory;

 private:
  const metrics::totals before_ = one_registry().total();
  const options_of_harness how_;
  method_table methods_;
  const queue_age_bound queue_age_{nullptr, 0us};
  const served_methods served_{methods_, how_.calls};
  const h2::common common_{.workers = workers,
                           .drain = site.drain,
                           .metrics = one_registry(),
                           .bounds = how_.http2,
                           .leaving = leaving,
                           .memory = memory,
                           .calls = how_.with_calls ? &served_ : nullptr,
                           .parts_behind_answers = true};
  const h1::common context_{workers, site.drain, site.routes, one_registry(), how_.http,
                            times,   queue_age_, common_,     how_.log};
  frame_reader reader_;

 public:
  clock::time_point now = clock::now();
  h2::endpoint tested;
};

fields asks(const std::string& method, const std::string& path, const fields& more = {}) {
  fields all{{":method", method}, {":scheme", "http"}, {":path", path}, {":authority", "a:80"}};
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

std::string get(std::uint32_t stream, const std::string& path) {
  return header_frame(stream, asks("GET", path), end_stream);
}

std::string post(std::uint32_t stream, const std::string& body, const fields& more = {}) {
  return header_frame(stream, asks("POST", "/echo", more)) + frame(data, end_stream, stream, body);
}

/// In frames as large as they may be.
std::string large_post(std::uint32_t stream, const std::string& body) {
  std::string frames = header_frame(stream, asks("POST", "/echo"));
  for (std::size_t at = 0; at < body.size(); at += 16'384) {
    frames += frame(data, none, stream, body.substr(at, 16'384));
  }
  return frames + frame(data, end_stream, stream, "");
}

std::string repeat(int times, const std::string& what) {
  std::string all;
  for (int i = 0; i < times; ++i) all += what;
  return all;
}

TEST(http2_request, is_answered_by_header_and_data) {
  http_harness connection;
  connection.begin();
  const auto fresh = connection.feed(get(1, "/plaintext"));
  ASSERT_EQ(fresh.size(), 2U);
  EXPECT_EQ(fresh[0].type, headers);
  EXPECT_EQ(fresh[0].flags, end_headers);
  fields got = fresh[0].header;
  ASSERT_EQ(got.size(), 4U);
  EXPECT_EQ(got[1].first, "date");
  EXPECT_TRUE(got[1].second.size() == 29 && got[1].second.ends_with(" GMT")) << got[1].second;
  got.erase(got.begin() + 1);
  EXPECT_EQ(got,
            (fields{{":status", "200"}, {"content-type", "text/plain"}, {"content-length", "13"}}));
  EXPECT_EQ(fresh[1].type, data);
  EXPECT_EQ(fresh[1].flags, end_stream);
  EXPECT_EQ(fresh[1].payload, "Hello, World!");
  EXPECT_EQ(connection.counted("/plaintext", server::status::ok), 1U);
}

TEST(http2_request, for_the_head_alone_gets_that_of_get) {
  http_harness connection;
  connection.begin();
  const auto fresh = connection.feed(header_frame(1, asks("HEAD", "/plaintext"), end_stream));
  ASSERT_EQ(fresh.size(), 1U);
  EXPECT_EQ(fresh[0].flags, end_headers | end_stream);
  EXPECT_EQ(connection.answer_to(1).field("content-length"), "13");
}

TEST(http2_request, may_have_a_body_in_pieces_padded_with_trailers_or_none) {
  http_harness connection;
  connection.begin();
  connection.feed(post(1, "whole", {{"content-type", "a/b"}, {"content-length", "5"}}) +
                  header_frame(3, asks("POST", "/echo")) + frame(data, none, 3, "in ") +
                  frame(data, padded, 3, "\x02pie--") + frame(data, none, 3, "") +
                  frame(data, end_stream, 3, "ces") + header_frame(5, asks("POST", "/echo")) +
                  frame(data, none, 5, "before trailers") +
                  header_frame(5, {{"x-checksum", "1"}}, end_stream) +
                  header_frame(7, asks("POST", "/echo"), end_stream));
  EXPECT_EQ(connection.answer_to(1).body, "whole");
  EXPECT_EQ(connection.answer_to(1).field("content-type"), "a/b");
  EXPECT_EQ(connection.answer_to(3).body, "in pieces");
  EXPECT_EQ(connection.answer_to(3).field("content-type"), "application/octet-stream");
  EXPECT_EQ(connection.answer_to(5).body, "before trailers");
  EXPECT_EQ(connection.answer_to(7).status, "200");
  EXPECT_EQ(connection.answer_to(7).field("content-length"), "0");
  for (const std::uint32_t stream : {1U, 3U, 5U, 7U}) {
    EXPECT_TRUE(connection.answer_to(stream).ended) << stream;
    EXPECT_EQ(connection.answer_to(stream).reset, -1) << stream;
  }
}

struct row {
  const char* what;
  fields header;
  std::string status;
  std::string allow = "(none)";
};

TEST(http2_request, each_row_has_its_status) {
  const std::vector<row> rows{
      {"no such path", asks("GET", "/none"), "404"},
      {"a query", asks("GET", "/plaintext?a=/echo"), "200"},
      {"not its method", asks("POST", "/plaintext"), "405", "GET, HEAD, OPTIONS"},
      {"not its method either", asks("GET", "/echo"), "405", "POST, OPTIONS"},
      {"a known method", asks("PUT", "/echo"), "405", "POST, OPTIONS"},
      {"an unknown method", asks("BREW", "/echo"), "501"},
      {"CONNECT",
       {{":method", "CONNECT"}, {":authority", "a:80"}},
       "405",
       "GET, HEAD, POST, OPTIONS"},
      {"options of a path", asks("OPTIONS", "/echo"), "200", "POST, OPTIONS"},
      {"options of the server", asks("OPTIONS", "*"), "200", "GET, HEAD, POST, OPTIONS"},
      {"a fragment", asks("GET", "/plaintext#a"), "400"},
      {"a bad authority",
       {{":method", "GET"}, {":scheme", "http"}, {":path", "/"}, {":authority", "a:b"}},
       "400"},
      {"a bad host", asks("GET", "/", {{"host", "[a"}}), "400"},
      {"a host that is not the authority", asks("GET", "/", {{"host", "b:80"}}), "400"},
      {"a host with another port", asks("GET", "/", {{"host", "a:81"}}), "400"},
      {"a host with a port more", asks("GET", "/", {{"host", "a:800"}}), "400"},
      {"a host behind other fields", asks("GET", "/", {{"x", "y"}, {"host", "b"}}), "400"},
      {"a host in other case", asks("GET", "/", {{"host", "A:80"}}), "200"},
      {"a host alone",
       {{":method", "GET"}, {":scheme", "http"}, {":path", "/"}, {"host", "b"}},
       "200"},
      {"an expectation", asks("POST", "/echo", {{"expect", "200-ok"}}), "417"},
      {"a length above the limit", asks("POST", "/echo", {{"content-length", "1048577"}}), "413"},
      {"a length beyond all", asks("POST", "/echo", {{"content-length", "9223372036854775807"}}),
       "413"},
      {"a header above the limit", asks("GET", "/", {{"x", std::string(17'000, 'x')}}), "431"},
      {"a path above the limit", asks("GET", std::string("/").append(17'000, 'x')), "431"},
  };
  for (const row& each : rows) {
    for (const bool ended : {true, false}) {
      const bool has_length = each.status == "413";
      if (has_length && ended) continue;  // then it is malformed
      http_harness connection;
      connection.begin();
      const std::string block = hpack(each.header);
      std::string frames = frame(headers, ended ? end_stream : none, 1, block.substr(0, 16'000));
      for (std::size_t at = 16'000; at < block.size(); at += 16'000) {
        frames += frame(continuation_frame, none, 1, block.substr(at, 16'000));
      }
      frames += frame(continuation_frame, end_headers, 1, "");
      connection.feed(frames);
      if (!ended && !has_length) connection.feed(frame(data, end_stream, 1, ""));
      const answer got = connection.answer_to(1);
      EXPECT_EQ(got.status, each.status) << each.what;
      EXPECT_EQ(got.field("allow"), each.allow) << each.what;
      EXPECT_TRUE(got.ended) << each.what;
      EXPECT_EQ(got.reset, -1) << each.what;
      connection.feed(get(3, "/plaintext"));
      EXPECT_EQ(connection.answer_to(3).body, "Hello, World!") << each.what;
    }
  }
}

/// RFC 9113, 8.1.1: "An endpoint that receives a malformed request or response MUST treat this as a
/// stream error of type PROTOCOL_ERROR."
TEST(http2_request, that_is_malformed_is_reset) {
  const std::vector<std::pair<const char*, std::string>> all{
      {"less than its length", post(1, "abc", {{"content-length", "4"}})},
      {"more than its length", post(1, "abcde", {{"content-length", "4"}})},
      {"no path", header_frame(1, {{":method", "GET"}, {":scheme", "http"}}, end_stream)},
      {"an upper case name", header_frame(1, asks("GET", "/", {{"X", "y"}}), end_stream)},
      {"two authorities", header_frame(1,
                                       {{":method", "GET"},
                                        {":scheme", "http"},
                                        {":path", "/"},
                                        {":authority", "a"},
                                        {":authority", "a"}},
                                       end_stream)},
      {"a host of nothing", header_frame(1, asks("GET", "/", {{"host", ""}}), end_stream)},
      {"two hosts",
       header_frame(1, asks("GET", "/", {{"host", "a:80"}, {"host", "a:80"}}), end_stream)},
      {"a field of the connection",
       header_frame(1, asks("GET", "/", {{"connection", "close"}}), end_stream)},
      {"a pseudo-field too late",
       header_frame(1, {{":method", "GET"}, {"x", "y"}, {":path", "/"}}, end_stream)},
  };
  for (const auto& [what, frames] : all) {
    http_harness connection;
    connection.begin();
    connection.feed(frames);
    EXPECT_EQ(connection.answer_to(1).reset, 1) << what;
    connection.feed(get(3, "/plaintext"));
    EXPECT_EQ(connection.answer_to(3).body, "Hello, World!") << what;
  }
}

/// One header's authority says nothing about the next header's host.
TEST(http2_request, is_compared_by_its_own_hosts_alone) {
  http_harness connection;
  connection.begin();
  const fields alone{{":method", "GET"}, {":scheme", "http"}, {":path", "/"}, {"host", "b"}};
  connection.feed(get(1, "/") + header_frame(3, alone, end_stream) +
                  header_frame(5, asks("GET", "/", {{"host", "b"}}), end_stream) + get(7, "/") +
                  header_frame(9, asks("POST", "/echo")) + frame(data, none, 9, "body") +
                  header_frame(9, {{"host", "b"}}, end_stream));
  EXPECT_EQ(connection.answer_to(1).status, "200");
  EXPECT_EQ(connection.answer_to(3).status, "200");
  EXPECT_EQ(connection.answer_to(5).status, "400");
  EXPECT_EQ(connection.answer_to(7).status, "200");
  EXPECT_EQ(connection.answer_to(9).body, "body");
}

TEST(http2_limits, a_body_above_its_limit_is_refused_as_it_comes) {
  options_of_harness how;
  how.http.body_bytes_max = 100;
  http_harness connection(how);
  connection.begin();
  connection.feed(post(1, std::string(100, 'x')));
  EXPECT_EQ(connection.answer_to(1).status, "200");
  connection.feed(header_frame(3, asks("POST", "/echo")) +
                  frame(data, none, 3, std::string(60, 'x')));
  EXPECT_EQ(connection.answer_to(3).status, "");
  connection.feed(frame(data, none, 3, std::string(41, 'x')));
  EXPECT_EQ(connection.answer_to(3).status, "413");
  EXPECT_EQ(connection.answer_to(3).reset, -1);
  // Its rest is dropped, but not without end: RFC 9113, 8.1.
  const std::string piece = frame(data, none, 3, std::string(16'000, 'x'));
  for (std::size_t sent = 0; sent < linger_bytes_max; sent += 16'000) connection.feed(piece);
  EXPECT_EQ(connection.answer_to(3).reset, 0);
  EXPECT_EQ(connection.counted("", server::status::payload_too_large), 1U);
}

TEST(http2_limits, the_rest_of_a_refused_request_has_its_time) {
  options_of_harness how;
  how.http.body_timeout = 5s;
  http_harness connection(how);
  connection.begin();
  connection.feed(header_frame(1, asks("POST", "/echo", {{"content-length", "2000000"}})) +
                  header_frame(3, asks("POST", "/echo", {{"content-length", "2000000"}})));
  EXPECT_EQ(connection.answer_to(1).status, "413");
  EXPECT_EQ(connection.tested.deadline(), connection.now + 5s);
  connection.feed(frame(rst_stream, none, 3, number(8)));
  connection.now += 5s;
  connection.look();
  EXPECT_EQ(connection.answer_to(1).reset, 0);
  EXPECT_EQ(connection.answer_to(3).reset, -1);
  EXPECT_EQ(connection.timeouts(metrics::timeout::body), 0U);
}

TEST(http2_limits, bodies_of_a_connection_have_a_bound_together) {
  options_of_harness how;
  how.http.body_bytes_max = 1000;
  http_harness connection(how);
  connection.begin();
  std::string frames;
  for (std::uint32_t i = 0; i < 17; ++i) {
    frames += header_frame(2 * i + 1, asks("POST", "/echo")) +
              frame(data, none, 2 * i + 1, std::string(1000, 'x'));
  }
  connection.feed(frames);
  EXPECT_EQ(connection.answer_to(31).status, "");
  EXPECT_EQ(connection.answer_to(33).status, "503");
  EXPECT_EQ(connection.answer_to(33).field("retry-after"), "1");
  connection.feed(frame(data, end_stream, 1, ""));
  connection.feed(post(35, std::string(1000, 'y')));
  EXPECT_EQ(connection.answer_to(1).status, "200");
  EXPECT_EQ(connection.answer_to(35).status, "200");
}

/// On a thread of its own, which keeps no buffers yet.
template <class Body>
void on_a_new_thread(Body body) {
  std::thread(body).join();
}

constexpr std::int64_t kib = 1024;
constexpr auto bodies = server::memory::bodies;
constexpr auto output = server::memory::output;
constexpr auto buffers = server::memory::buffers;

std::string text_of(std::size_t size) {
  std::string text(size, '\0');
  for (std::size_t i = 0; i < size; ++i) text[i] = static_cast<char>('a' + i % 23);
  return text;
}

/// A request of /echo with its length, and no END_STREAM.
std::string announced_post(std::uint32_t stream, std::size_t length, const std::string& sent) {
  std::string frames =
      header_frame(stream, asks("POST", "/echo", {{"content-length", std::to_string(length)}}));
  for (std::size_t at = 0; at < sent.size(); at += 16'384) {
    frames += frame(data, none, stream, sent.substr(at, 16'384));
  }
  return frames;
}

/// Of all that is announced, up to 256 KiB, once a sixteenth of that is there.
TEST(http2_bodies, that_are_announced_take_memory_when_a_part_has_come) {
  on_a_new_thread([] {
    http_harness connection;
    connection.begin();
    connection.feed(announced_post(1, 1'048'576, ""));
    EXPECT_EQ(connection.charged(bodies), 0);
    connection.feed(frame(data, none, 1, "x"));
    EXPECT_LT(connection.charged(bodies), 8 * kib);
    connection.feed(frame(data, none, 1, text_of(16'382)));
    EXPECT_LT(connection.charged(bodies), 40 * kib);
    connection.feed(frame(data, none, 1, "xx"));
    EXPECT_EQ(connection.charged(bodies), 260 * kib);
    connection.feed(announced_post(3, 100'000, text_of(6'250)));
    EXPECT_EQ(connection.charged(bodies), (260 + 132) * kib);
    connection.feed(announced_post(5, 1, "x"));
    EXPECT_EQ(connection.charged(bodies), (260 + 132) * kib);
  });
}

TEST(http2_bodies, leave_their_buffers_to_the_next) {
  on_a_new_thread([] {
    options_of_harness how;
    how.http.body_bytes_max = 100'000;
    http_harness connection(how);
    connection.begin();
    connection.feed(announced_post(1, 99'999, text_of(50'000)));
    EXPECT_EQ(connection.charged(bodies), 132 * kib);
    EXPECT_EQ(connection.charged(buffers), 0);
    connection.feed(frame(rst_stream, none, 1, number(8)));
    EXPECT_EQ(connection.charged(bodies), 0);
    EXPECT_EQ(connection.charged(buffers), 132 * kib);
    connection.feed(announced_post(3, 99'998, text_of(50'000)));
    EXPECT_EQ(connection.charged(bodies), 132 * kib);
    EXPECT_EQ(connection.charged(buffers), 0);
    connection.now += how.http.body_timeout;
    connection.look();
    EXPECT_EQ(connection.answer_to(3).status, "408");
    EXPECT_EQ(connection.charged(bodies), 0);
    EXPECT_EQ(connection.charged(buffers), 132 * kib);
    // One that grows leaves the smaller ones, too.
    connection.feed(large_post(5, text_of(100'001)));
    EXPECT_EQ(connection.answer_to(5).status, "413");
    EXPECT_EQ(connection.charged(bodies), 0);
    EXPECT_EQ(connection.charged(buffers), (32 + 68 + 132) * kib);
  });
}

/// Two of 260 KiB and the thread's first 128 are less than the 690 that are tight; three are not.
TEST(http2_bodies, are_not_charged_any_more_where_their_buffers_are) {
  on_a_new_thread([] {
    options_of_harness how;
    how.memory_max = 920 * 1024;
    http_harness connection(how);
    connection.begin();
    const std::string part = text_of(16'000);
    connection.feed(announced_post(1, 250'000, part) + announced_post(3, 250'000, part));
    EXPECT_EQ(connection.charged(bodies), 2 * 260 * kib);
    connection.feed(frame(rst_stream, none, 1, number(8)) + frame(rst_stream, none, 3, number(8)));
    EXPECT_EQ(connection.charged(buffers), 2 * 260 * kib);
  });
}

TEST(http2_bodies, that_are_large_are_refused_while_memory_is_tight) {
  on_a_new_thread([] {
    options_of_harness how;
    how.memory_max = std::size_t{4} << 20;
    http_harness connection(how);
    connection.begin();
    connection.feed(announced_post(1, 200'000, "") + announced_post(3, 60'000, ""));
    ASSERT_TRUE(connection.memory.take(output, 3'500 * 1024));
    connection.feed(frame(data, none, 1, "x") + frame(data, none, 3, text_of(4'000)));
    EXPECT_EQ(connection.answer_to(1).status, "503");
    EXPECT_EQ(connection.answer_to(3).status, "");
    EXPECT_EQ(connection.charged(bodies), 68 * kib);
    connection.memory.give_back(output, 3'500 * 1024);
  });
}

/// The answer lies in the request's buffer, which is charged as long as it is there: what waits as
/// output, the rest as bodies.
TEST(http2_bodies, that_are_echoed_stay_where_they_are) {
  on_a_new_thread([] {
    const std::string body = text_of(250'000);
    const auto is_charged = [](const http_harness& of, std::int64_t waiting) {
      EXPECT_NEAR(static_cast<double>(of.charged(output)), static_cast<double>(waiting), 4096);
      EXPECT_NEAR(static_cast<double>(of.charged(bodies) + of.charged(output)), 260 * kib, 8192);
    };
    http_harness connection;
    connection.begin();
    connection.feed(announced_post(1, body.size(), body) + frame(data, end_stream, 1, ""));
    EXPECT_EQ(connection.answer_to(1).body, body.substr(0, 65'535));
    is_charged(connection, 250'000 - 65'535);
    for (int sent = 65'535; sent < 250'000; sent += 60'000) {
      is_charged(connection, 250'000 - sent);
      EXPECT_EQ(connection.charged(buffers), 0);
      connection.feed(frame(window_update, none, 0, number(60'000)) +
                      frame(window_update, none, 1, number(60'000)));
    }
    EXPECT_EQ(connection.answer_to(1).body, body);
    EXPECT_TRUE(connection.answer_to(1).ended);
    EXPECT_EQ(connection.charged(bodies), 0);
    EXPECT_EQ(connection.charged(output), 0);
    EXPECT_EQ(connection.charged(buffers), 260 * kib);
  });
}

TEST(http2_bodies, that_are_echoed_may_be_reset_midway) {
  on_a_new_thread([] {
    const std::string body = text_of(250'000);
    http_harness connection;
    connection.begin();
    connection.feed(announced_post(1, body.size(), body) + frame(data, end_stream, 1, ""));
    EXPECT_EQ(connection.answer_to(1).body.size(), 65'535U);
    connection.feed(frame(rst_stream, none, 1, number(8)));
    EXPECT_EQ(connection.charged(bodies), 0);
    EXPECT_EQ(connection.charged(output), 0);
    EXPECT_EQ(connection.charged(buffers), 260 * kib);
    connection.feed(announced_post(3, 200'000, body.substr(0, 200'000)) +
                    frame(data, end_stream, 3, "") +
                    frame(window_update, none, 0, number(1'000'000)));
    EXPECT_EQ(connection.charged(buffers), 0);
    connection.feed(frame(window_update, none, 3, number(1'000'000)));
    EXPECT_EQ(connection.answer_to(1).body.size(), 65'535U);
    EXPECT_EQ(connection.answer_to(3).body, body.substr(0, 200'000));
    connection.feed(announced_post(5, 200'000, body.substr(0, 200'000)) +
                    frame(data, end_stream, 5, ""));
  });  // its end with an answer that is sent partly is the sanitizers' to look at
}

/// All but a byte of each is sent, and all of them are in memory yet.
TEST(http2_bodies, that_are_echoed_count_as_answers_as_long_as_they_are_there) {
  options_of_harness how;
  how.http2.output_bytes_max = 100'000;
  http_harness connection(how);
  connection.begin(number(4, 2) + number(39'999));
  connection.feed(frame(window_update, none, 0, number(1'000'000)));
  for (const std::uint32_t stream : {1U, 3U, 5U}) {
    connection.feed(large_post(stream, std::string(40'000, 'x')));
  }
  EXPECT_EQ(connection.answer_to(1).body.size(), 39'999U);
  EXPECT_EQ(connection.answer_to(3).body.size(), 39'999U);
  EXPECT_EQ(connection.answer_to(5).reset, 7);
  connection.feed(frame(window_update, none, 1, number(1)));
  EXPECT_TRUE(connection.answer_to(1).ended);
  connection.feed(post(7, "x"));
  EXPECT_EQ(connection.answer_to(7).body, "x");
}

TEST(http2_bodies, that_nobody_echoes_are_given_up_with_the_answer) {
  on_a_new_thread([] {
    http_harness connection;
    connection.begin(number(4, 2) + number(0));  // INITIAL_WINDOW_SIZE 0
    const std::string body = text_of(16'000);
    std::uint32_t stream = 1;
    for (const char* const verb : {"HEAD", "GET"}) {
      std::string frames = header_frame(stream, asks(verb, "/plaintext"));
      for (int i = 0; i < 4; ++i) frames += frame(data, none, stream, body);
      connection.feed(frames);
      EXPECT_EQ(connection.charged(bodies), 68 * kib);
      connection.feed(frame(data, end_stream, stream, ""));
      EXPECT_EQ(connection.charged(bodies), 0);
      EXPECT_EQ(connection.answer_to(stream).field("content-length"), "13");
      EXPECT_EQ(connection.answer_to(stream).body, "");
      stream += 2;
    }
    EXPECT_TRUE(connection.answer_to(1).ended);
    connection.feed(frame(window_update, none, 3, number(13)));
    EXPECT_EQ(connection.answer_to(3).body, "Hello, World!");
  });
}

TEST(http2_bodies, that_are_echoed_are_logged_and_may_have_trailers) {
  std::string name = testing::TempDir() + "http2_bodies.XXXXXX";
  ASSERT_NE(::mkdtemp(name.data()), nullptr);
  const std::string file = name + "/log";
  {
    access_log log({.file = file});
    options_of_harness how;
    how.log = &log;
    http_harness connection(how);
    connection.begin(number(4, 2) + number(1'000'000));
    const std::string body = text_of(40'000);
    connection.feed(announced_post(1, body.size(), body) +
                    header_frame(1, {{"x-checksum", "1"}}, end_stream));
    EXPECT_EQ(connection.answer_to(1).body, body);
    EXPECT_TRUE(connection.answer_to(1).ended);
  }
  std::ifstream written(file);
  const std::string line{std::istreambuf_iterator<char>(written), {}};
  EXPECT_NE(line.find(R"("path":"/echo")"), std::string::npos) << line;
  EXPECT_NE(line.find(R"("bytes":40000)"), std::string::npos) << line;
  std::filesystem::remove_all(name);
}

TEST(http2_limits, a_body_larger_than_the_window_goes_as_the_window_grows) {
  http_harness connection;
  connection.begin();
  const std::string body(300'000, 'b');
  std::string frames = header_frame(1, asks("POST", "/echo"));
  for (std::size_t at = 0; at < body.size(); at += 16'000) {
    frames += frame(data, none, 1, body.substr(at, 16'000));
  }
  connection.feed(frames + frame(data, end_stream, 1, ""));
  EXPECT_EQ(connection.answer_to(1).body.size(), 65'535U);
  for (int i = 0; i < 4; ++i) {
    connection.feed(frame(window_update, none, 0, number(65'535)) +
                    frame(window_update, none, 1, number(65'535)));
  }
  EXPECT_EQ(connection.answer_to(1).body, body);
  EXPECT_TRUE(connection.answer_to(1).ended);
}

TEST(http2_limits, answers_that_nobody_takes_make_others_refused) {
  options_of_harness how;
  how.http2.output_bytes_max = 10'000;
  http_harness connection(how);
  connection.begin(number(4, 2) + number(0));  // INITIAL_WINDOW_SIZE 0
  connection.feed(post(1, std::string(10'001, 'x')) + post(3, "x"));
  EXPECT_EQ(connection.answer_to(3).reset, 7);
}

TEST(http2_limits, an_answer_that_its_window_never_lets_go_is_given_up) {
  options_of_harness how;
  how.http.write_timeout = 4s;
  how.http2.write_timeout = 4s;
  http_harness connection(how);
  connection.begin(number(4, 2) + number(0));  // INITIAL_WINDOW_SIZE 0
  connection.feed(get(1, "/plaintext") + get(3, "/plaintext"));
  const auto begun = connection.now;
  for (bool fed = false; connection.answer_to(1).reset == -1; fed = true) {
    ASSERT_LT(connection.now - begun, 10s);
    if (!fed) connection.feed(frame(window_update, none, 3, number(100)));
    connection.now = connection.tested.deadline();
    connection.look();
  }
  EXPECT_GE(connection.now - begun, 4s);
  EXPECT_EQ(connection.answer_to(1).reset, 8);
  EXPECT_EQ(connection.answer_to(3).body, "Hello, World!");
  EXPECT_EQ(connection.answer_to(3).reset, -1);
  EXPECT_EQ(connection.timeouts(metrics::timeout::write), 1U);
}

const std::string no_windows = number(4, 2) + number(0);  // INITIAL_WINDOW_SIZE
const std::string all_windows = number(4, 2) + number(0x7fffffff);

options_of_harness four_seconds_to_write() {
  options_of_harness how;
  how.http.write_timeout = how.http2.write_timeout = 4s;
  return how;
}

TEST(http2_slow_readers, that_open_their_window_by_a_byte_now_and_then_are_given_up) {
  for (const auto apart : {std::chrono::milliseconds(20ms), 100ms, 1000ms, 3000ms}) {
    SCOPED_TRACE(apart.count());
    http_harness connection(four_seconds_to_write());
    connection.begin(no_windows);
    connection.feed(post(1, std::string(5000, 'x')));
    const auto begun = connection.now;
    while (connection.answer_to(1).reset == -1) {
      ASSERT_LT(connection.now - begun, 10s);
      connection.wait(apart);
      connection.feed(frame(window_update, none, 1, number(1)));
    }
    EXPECT_GE(connection.now - begun, 4s);
    EXPECT_EQ(connection.answer_to(1).reset, 8);
    EXPECT_GT(connection.answer_to(1).body.size(), 0U);
    EXPECT_EQ(connection.timeouts(metrics::timeout::write), 1U);
    connection.feed(get(3, "/plaintext") + frame(window_update, none, 3, number(13)));
    EXPECT_EQ(connection.answer_to(3).body, "Hello, World!");
  }
}

TEST(http2_slow_readers, that_open_the_connections_window_so_are_too) {
  http_harness connection(four_seconds_to_write());
  connection.begin(all_windows);
  connection.feed(large_post(1, std::string(65'535, 'x')));
  connection.feed(post(3, std::string(5000, 'x')) + post(5, std::string(5000, 'x')));
  EXPECT_TRUE(connection.answer_to(1).ended);
  const auto begun = connection.now;
  while (connection.answer_to(3).reset == -1 || connection.answer_to(5).reset == -1) {
    ASSERT_LT(connection.now - begun, 10s);
    connection.wait(100ms);
    connection.feed(frame(window_update, none, 0, number(1)));
  }
  EXPECT_GE(connection.now - begun, 4s);
  EXPECT_EQ(connection.answer_to(1).reset, -1);
  EXPECT_EQ(connection.timeouts(metrics::timeout::write), 2U);
}

/// 240 bytes a second: 960 in the time, whenever they come in it.
TEST(http2_slow_readers, above_the_least_rate_are_not) {
  for (const int bytes : {25, 250, 1000}) {
    SCOPED_TRACE(bytes);
    http_harness connection(four_seconds_to_write());
    connection.begin(no_windows);
    connection.feed(large_post(1, std::string(20'000, 'x')));
    for (int sent = 0; sent < 20'000; sent += bytes) {
      connection.wait(bytes * 4ms);
      connection.feed(frame(window_update, none, 1, number(static_cast<std::uint32_t>(bytes))));
      ASSERT_EQ(connection.answer_to(1).reset, -1) << sent;
    }
    EXPECT_EQ(connection.answer_to(1).body.size(), 20'000U);
    EXPECT_TRUE(connection.answer_to(1).ended);
  }
}

TEST(http2_slow_readers, are_waited_for_byte_by_byte_without_a_least_rate) {
  options_of_harness how = four_seconds_to_write();
  how.http2.write_rate_min = 0;
  http_harness connection(how);
  connection.begin(no_windows);
  connection.feed(post(1, std::string(100, 'x')));
  for (int i = 0; i < 100; ++i) {
    connection.wait(2s);
    connection.feed(frame(window_update, none, 1, number(1)));
  }
  EXPECT_EQ(connection.answer_to(1).body.size(), 100U);
  EXPECT_TRUE(connection.answer_to(1).ended);
}

/// The connection as a whole is fast enough, and each stream has its turn much later.
TEST(http2_slow_readers, do_not_lose_what_waits_behind_other_streams) {
  http_harness connection(four_seconds_to_write());
  connection.begin(all_windows);
  connection.feed(large_post(1, std::string(65'535, 'x')));
  std::string asked;
  for (std::uint32_t i = 0; i < 20; ++i) asked += post(2 * i + 3, std::string(3000, 'x'));
  connection.feed(asked);
  for (int sent = 0; sent < 60'000; sent += 300) {
    connection.wait(1s);
    connection.feed(frame(window_update, none, 0, number(300)));
  }
  for (std::uint32_t i = 0; i < 20; ++i) {
    EXPECT_EQ(connection.answer_to(2 * i + 3).reset, -1) << i;
    EXPECT_EQ(connection.answer_to(2 * i + 3).body.size(), 3000U) << i;
  }
}

TEST(http2_slow_readers, are_not_those_for_whom_nobody_had_time) {
  http_harness connection(four_seconds_to_write());
  connection.begin(no_windows);
  connection.feed(post(1, std::string(5000, 'x')));
  connection.now += 2s;
  connection.look();
  connection.now += 60s;  // in which it was sent something else, and not heard
  connection.feed(frame(window_update, none, 1, number(100)));
  EXPECT_EQ(connection.answer_to(1).reset, -1);

  // What has more to send than one turn's is behind, whatever the windows.
  http_harness large(four_seconds_to_write());
  large.begin(all_windows);
  large.feed(frame(window_update, none, 0, number(0x7fff0000)));
  const std::string body(1'000'000, 'x');
  const std::string bytes = large_post(1, body);
  large.tested.feed(std::as_bytes(std::span(bytes)), large.now);
  large.pull_some();
  for (int i = 0; i < 20; ++i) {
    large.now += 1s;
    large.tested.look(large.now);
  }
  large.pull();
  EXPECT_EQ(large.answer_to(1).reset, -1);
  EXPECT_EQ(large.answer_to(1).body.size(), body.size());
}

/// What it has sent meanwhile lies unread.
TEST(http2_limits, the_time_in_which_nobody_reads_is_not_the_peers) {
  options_of_harness how;
  how.lane_threshold = 1000;
  how.hands_on = false;
  how.http.body_timeout = 1s;
  how.http2.header_timeout = 1s;
  http_harness connection(how);
  for (int i = 0; i < 20; ++i) connection.times.note(connection.site.routes.find("/work"), 4000);
  connection.begin();
  const std::string late = header_frame(7, asks("POST", "/echo"), end_stream);
  connection.feed(get(1, "/work?us=1") + header_frame(3, asks("POST", "/echo")) +
                  late.substr(0, 9));
  ASSERT_NE(connection.tested.left(), rest::nothing);
  connection.now += 2s;
  while (connection.tested.left() != rest::nothing) connection.look();
  EXPECT_EQ(connection.answer_to(1).status, "200");
  connection.feed(late.substr(9) + frame(data, end_stream, 3, "in time"));
  EXPECT_EQ(connection.answer_to(7).status, "200");
  EXPECT_EQ(connection.answer_to(3).body, "in time");
  connection.feed(header_frame(9, asks("POST", "/echo")));
  connection.now += 1s;  // now it is
  connection.look();
  EXPECT_EQ(connection.answer_to(9).status, "408");
}

TEST(http2_limits, a_body_that_does_not_come_is_a_timeout) {
  options_of_harness how;
  how.http.body_timeout = 5s;
  http_harness connection(how);
  connection.begin();
  connection.now += 60s;  // idle before
  connection.feed(header_frame(1, asks("POST", "/echo")) + frame(data, none, 1, "a"));
  connection.now += 1s;
  connection.feed(header_frame(3, asks("POST", "/echo")));
  connection.feed(frame(data, none, 1, "b") + post(5, "done"));  // does not prolong it
  EXPECT_EQ(connection.tested.deadline(), connection.now + 4s);
  connection.now += 4s;
  connection.look();
  EXPECT_EQ(connection.answer_to(1).status, "408");
  EXPECT_EQ(connection.answer_to(1).reset, 0);
  EXPECT_EQ(connection.answer_to(3).status, "");
  EXPECT_EQ(connection.tested.deadline(), connection.now + 1s);
  connection.feed(frame(data, end_stream, 3, "in time"));
  EXPECT_EQ(connection.answer_to(3).body, "in time");
  EXPECT_EQ(connection.timeouts(metrics::timeout::body), 1U);
}

TEST(http2_limits, who_waits_to_be_told_to_send_its_body_is) {
  http_harness connection;
  connection.begin();
  const fields expects = asks("POST", "/echo", {{"expect", "100-continue"}});
  const auto told = connection.feed(header_frame(1, expects));
  ASSERT_EQ(told.size(), 1U);
  EXPECT_EQ(told[0].header, (fields{{":status", "100"}}));
  EXPECT_EQ(told[0].flags, end_headers);
  connection.feed(frame(data, end_stream, 1, "body"));
  EXPECT_EQ(connection.answer_to(1).body, "body");
  // Not if it has begun, or has none.
  EXPECT_EQ(connection.feed(header_frame(3, expects) + frame(data, none, 3, "b")).size(), 0U);
  connection.feed(header_frame(5, expects, end_stream));
  EXPECT_EQ(connection.answer_to(5).header_frames, 1);
  // Nor if it is refused: what is final is the last.
  const fields refused =
      asks("POST", "/echo", {{"content-length", "99999999"}, {"expect", "100-continue"}});
  connection.feed(header_frame(7, refused) + header_frame(9, expects));
  EXPECT_EQ(connection.answer_to(7).status, "413");
  EXPECT_EQ(connection.answer_to(7).header_frames, 1);
  EXPECT_EQ(connection.answer_to(9).header_frames, 1);
}

TEST(http2_turns, many_requests_give_way_and_are_all_answered) {
  options_of_harness how;
  how.http.pipeline_max = 4;
  http_harness connection(how);
  connection.begin();
  std::string frames;
  for (std::uint32_t i = 0; i < 10; ++i) frames += get(2 * i + 1, "/plaintext");
  connection.feed(frames + frame(rst_stream, none, 11, number(8)));
  EXPECT_EQ(connection.tested.left(), rest::some);
  EXPECT_EQ(connection.answer_to(7).body, "Hello, World!");
  EXPECT_EQ(connection.answer_to(9).body, "");
  connection.look();
  EXPECT_EQ(connection.answer_to(9).body, "Hello, World!");
  EXPECT_EQ(connection.answer_to(11).body, "");  // reset
  connection.look();
  EXPECT_EQ(connection.tested.left(), rest::nothing);
  EXPECT_EQ(connection.answer_to(19).body, "Hello, World!");
}

struct lane_harness : http_harness {
  explicit lane_harness(bool hands_on = true, unsigned handlers_max = 1000)
      : http_harness(with_lane(hands_on, handlers_max)) {
    for (int i = 0; i < 20; ++i) times.note(site.routes.find("/work"), 4000);
    begin();
  }
  static options_of_harness with_lane(bool hands_on, unsigned handlers_max) {
    options_of_harness how;
    how.http2.handlers_max = handlers_max;
    how.lane_threshold = 1000;
    how.hands_on = hands_on;
    return how;
  }
};

TEST(http2_turns, a_long_one_goes_to_the_lane_by_itself) {
  lane_harness connection;
  connection.feed(get(1, "/work?us=1") + get(3, "/plaintext") + get(5, "/work?us=2"));
  EXPECT_EQ(connection.workers.posted_long, 2);
  EXPECT_EQ(connection.tested.left(), rest::nothing);
  EXPECT_TRUE(connection.tested.has_running());
  EXPECT_EQ(connection.answer_to(3).status, "200");  // while both wait
  connection.feed(get(7, "/healthz") + call_frames(9, "x"));
  EXPECT_EQ(connection.answer_to(7).status, "200");
  EXPECT_EQ(connection.answer_to(9).field("grpc-status"), "0");
  EXPECT_EQ(connection.answer_to(1).status, "");
  connection.workers.run();
  connection.look();
  EXPECT_EQ(connection.answer_to(1).body, "burned 1 us\n");
  EXPECT_EQ(connection.answer_to(5).body, "burned 2 us\n");
  EXPECT_FALSE(connection.tested.has_running());
  EXPECT_EQ(connection.counted("/work", server::status::ok), 2U);
}

TEST(http2_turns, a_long_one_is_answered_with_its_own_body) {
  on_a_new_thread([] {
    lane_harness connection;
    for (int i = 0; i < 20; ++i) {
      connection.times.note(connection.site.routes.find("/echo"), 4000);
    }
    const std::string body = text_of(40'000);
    std::string frames;
    for (const std::uint32_t stream : {1U, 3U}) {
      frames += announced_post(stream, body.size(), body) + frame(data, end_stream, stream, "");
    }
    connection.feed(frames);
    EXPECT_EQ(connection.workers.posted_long, 2);
    connection.feed(frame(rst_stream, none, 3, number(8)));
    EXPECT_EQ(connection.charged(bodies), 2 * 68 * kib);  // the lane may be at it
    connection.workers.run();
    connection.look();
    EXPECT_EQ(connection.answer_to(1).body, body);
    EXPECT_EQ(connection.answer_to(3).body, "");
    EXPECT_EQ(connection.charged(bodies), 0);
    EXPECT_EQ(connection.charged(buffers), 2 * 68 * kib);
  });
}

TEST(http2_turns, a_long_one_that_nobody_wants_any_more_is_not_run) {
  lane_harness connection;
  connection.feed(get(1, "/work?us=9999999") + get(3, "/work?us=2"));
  connection.feed(frame(rst_stream, none, 1, number(8)));
  connection.workers.run();
  connection.look();
  EXPECT_FALSE(connection.tested.has_running());
  EXPECT_EQ(connection.answer_to(3).body, "burned 2 us\n");
  EXPECT_EQ(connection.counted("/work", server::status::ok), 1U);
}

TEST(http2_turns, long_ones_of_a_lost_connection_are_not_run_and_are_waited_for) {
  lane_harness connection;
  connection.feed(get(1, "/work?us=9999999") + get(3, "/work?us=9999999"));
  connection.tested.lost();
  EXPECT_TRUE(connection.tested.has_running());
  connection.workers.run();
  EXPECT_TRUE(connection.tested.has_running());
  connection.tested.bury();
  EXPECT_FALSE(connection.tested.has_running());
}

TEST(http2_turns, long_ones_beyond_what_a_connection_may_have_elsewhere_are_refused) {
  constexpr unsigned most = 10;
  lane_harness connection(true, most);
  std::uint32_t stream = 1;
  for (unsigned i = 0; i < most; ++i, stream += 2) {
    connection.feed(get(stream, "/work?us=1"));
    connection.feed(frame(rst_stream, none, stream, number(8)));  // yet its place is taken
  }
  connection.feed(get(stream, "/work?us=1") + get(stream + 2, "/plaintext"));
  EXPECT_EQ(connection.answer_to(stream).reset, 7);
  EXPECT_EQ(connection.answer_to(stream + 2).status, "200");
  EXPECT_EQ(connection.workers.posted_long, static_cast<int>(most));
}

TEST(http2_turns,
     long_ones_that_were_never_run_go_with_the_lane_before_their_connection_or_behind) {
  for (const bool before : {true, false}) {
    lane_harness connection;
    const std::string bytes =
        preface + frame(settings, none, 0, "") + get(1, "/work?us=1") + get(3, "/work?us=1");
    auto other = connection.another();
    other->feed(std::as_bytes(std::span(bytes)), connection.now);
    ASSERT_EQ(connection.workers.posted(), 2U);
    if (before) connection.workers.run(continuation::disposition::discard);
    other.reset();
    if (!before) connection.workers.run(continuation::disposition::discard);
  }  // a leak, or a second free, is the sanitizers' to find
}

TEST(http2_turns, a_long_one_takes_the_connection_along_where_nothing_is_given_back) {
  lane_harness connection(false);
  connection.feed(get(1, "/plaintext") + get(3, "/work?us=1") + get(5, "/work?us=1") +
                  get(7, "/plaintext"));
  // A slice that ends early, as the test lost its processor, is no matter here.
  const auto end_slices = [&] {
    while (connection.tested.left() == rest::some) connection.look();
  };
  end_slices();
  EXPECT_EQ(connection.answer_to(1).status, "200");
  EXPECT_EQ(connection.answer_to(3).status, "");
  EXPECT_EQ(connection.tested.left(), rest::long_one);
  connection.look();
  end_slices();
  EXPECT_EQ(connection.answer_to(3).status, "200");
  EXPECT_EQ(connection.tested.left(), rest::long_one);
  connection.look();
  end_slices();
  EXPECT_EQ(connection.answer_to(5).status, "200");
  EXPECT_EQ(connection.answer_to(7).status, "200");
  EXPECT_EQ(connection.tested.left(), rest::nothing);
}

TEST(http2_calls, go_where_calls_go_wherever_their_content_type_stands) {
  http_harness connection;
  connection.begin();
  fields late = asks("POST", hello_path, {{"te", "trailers"}, {"grpc-timeout", "0n"}});
  late.emplace_back("content-type", "application/grpc+proto");
  const fields early{{":path", hello_path},
                     {":method", "POST"},
                     {":scheme", "http"},
                     {":authority", "a"},
                     {"content-type", "application/grpc"},
                     {"te", "trailers"}};
  connection.feed(call_frames(1, "a") + get(3, "/plaintext") + header_frame(5, early) +
                  frame(data, end_stream, 5, message(named("b"))) + header_frame(7, late) +
                  frame(data, end_stream, 7, message(named("c"))));
  EXPECT_EQ(connection.answer_to(1).body, message(named("Hello a")));
  EXPECT_EQ(connection.answer_to(1).field("grpc-status"), "0");
  EXPECT_EQ(connection.answer_to(3).body, "Hello, World!");
  EXPECT_EQ(connection.answer_to(5).body, message(named("Hello b")));
  EXPECT_EQ(connection.answer_to(7).field("grpc-status"), "4");
}

/// Wherever its fields stand, and whichever of them makes it a call.
TEST(http2_calls, whose_host_is_not_their_authority_are_refused) {
  for (const bool late : {true, false}) {
    const fields::value_type host{"host", "b"};
    const fields::value_type type{"content-type", "application/grpc"};
    http_harness connection;
    connection.begin();
    const fields asked = asks("POST", hello_path, {late ? type : host, late ? host : type});
    connection.feed(header_frame(1, asked) + frame(data, end_stream, 1, message(named("x"))) +
                    call_frames(3, "y"));
    EXPECT_EQ(connection.answer_to(1).status, "400") << late;
    EXPECT_TRUE(connection.answer_to(1).ended) << late;
    EXPECT_EQ(connection.answer_to(3).body, message(named("Hello y"))) << late;
  }
}

/// However the bytes come: see native_errors.a_reset_of_a_stream_that_never_began_ends_nothing.
TEST(http2_calls, make_a_reset_of_a_stream_that_never_began_nothing) {
  const std::string idle_reset = frame(rst_stream, none, 3, number(8));
  for (const bool at_once : {true, false}) {
    http_harness connection;
    connection.begin();
    if (!at_once) connection.feed(call_frames(1, "a"));
    connection.feed((at_once ? call_frames(1, "a") : "") + idle_reset + get(5, "/plaintext"));
    EXPECT_EQ(goaway_code(connection.all), -1) << at_once;
    EXPECT_EQ(connection.answer_to(5).body, "Hello, World!") << at_once;
  }
  http_harness without_calls;
  without_calls.begin();
  without_calls.feed(get(1, "/plaintext") + idle_reset);
  EXPECT_EQ(goaway_code(without_calls.all), 1);
}

TEST(http2_calls, are_requests_for_what_is_not_there_where_nobody_serves_them) {
  options_of_harness how;
  how.with_calls = false;
  http_harness connection(how);
  connection.begin();
  connection.feed(call_frames(1, "a"));
  EXPECT_EQ(connection.answer_to(1).status, "404");
}

TEST(http2_calls, alone_make_pings_too_many) {
  const std::string pings = repeat(10, frame(ping, none, 0, "12345678"));
  http_harness connection;
  connection.begin();
  connection.feed(get(1, "/plaintext"));
  connection.feed(pings);
  EXPECT_FALSE(connection.tested.is_over());
  connection.feed(call_frames(3, "a"));
  connection.feed(pings);
  EXPECT_EQ(goaway_code(connection.all), 11);
}

TEST(http2_floods, each_ends_the_connection) {
  std::string resets;
  for (std::uint32_t i = 0; i < 1500; ++i) {
    resets += get(2 * i + 1, "/plaintext") + frame(rst_stream, none, 2 * i + 1, number(8));
  }
  const std::vector<std::tuple<const char*, std::string, int>> floods{
      {"PING", repeat(1100, frame(ping, none, 0, "12345678")), 11},
      {"SETTINGS", repeat(1100, frame(settings, none, 0, "")), 11},
      {"empty DATA",
       header_frame(1, asks("POST", "/echo")) + repeat(10'100, frame(data, none, 1, "")), 11},
      {"WINDOW_UPDATE", repeat(10'100, frame(window_update, none, 0, number(1))), 11},
      {"CONTINUATION",
       frame(headers, none, 1, hpack(asks("GET", "/"))) +
           repeat(20, frame(continuation_frame, none, 1, "")),
       11},
      {"rapid reset", resets, 2},
  };
  for (const auto& [what, bytes, code] : floods) {
    http_harness connection;
    connection.begin();
    EXPECT_EQ(goaway_code(connection.feed(bytes)), code) << what;
    EXPECT_TRUE(connection.tested.is_over()) << what;
  }
}

TEST(http2_floods, errors_of_streams_are_one) {
  http_harness connection;
  connection.begin();
  for (std::uint32_t i = 0; i < 10'100; ++i) connection.feed(header_frame(2 * i + 1, {}));
  EXPECT_EQ(goaway_code(connection.all), 11);
  EXPECT_TRUE(connection.tested.is_over());
}

TEST(http2_drain, the_peer_is_told_twice_and_its_requests_end) {
  http_harness connection;
  connection.begin();
  connection.feed(header_frame(1, asks("POST", "/echo")));
  connection.leaving = true;
  const auto told = connection.look();
  ASSERT_EQ(told.size(), 2U);
  EXPECT_EQ(told[0].payload, number(0x7fffffff) + number(0));
  connection.feed(frame(ping, ack, 0, told[1].payload));
  EXPECT_EQ(goaway_code(connection.all), 0);
  EXPECT_FALSE(connection.tested.is_over());
  connection.feed(frame(data, end_stream, 1, "late"));
  EXPECT_EQ(connection.answer_to(1).body, "late");
  EXPECT_TRUE(connection.tested.is_over());
}

TEST(http2_drain, until_the_server_leaves_goaway_follows_an_answer) {
  http_harness connection;
  connection.site.drain.begin();
  const auto fresh = connection.begin();
  connection.feed(frame(ping, none, 0, "12345678"));
  EXPECT_EQ(goaway_code(connection.all), -1);
  const auto answered = connection.feed(get(1, "/plaintext"));
  EXPECT_EQ(connection.answer_to(1).status, "200");
  ASSERT_GE(answered.size(), 3U);
  EXPECT_EQ(goaway_code(answered), 0);
  EXPECT_EQ(connection.feed(call_frames(3, "on its way")).empty(), false);
  EXPECT_EQ(connection.answer_to(3).field("grpc-status"), "0");
}

TEST(http2_drain, a_connection_that_was_answered_before_is_left_alone_until_its_next_answer) {
  http_harness connection;
  connection.begin();
  connection.feed(call_frames(1, "x"));
  connection.site.drain.begin();
  connection.feed(frame(ping, none, 0, "12345678"));
  EXPECT_EQ(goaway_code(connection.all), -1);
  connection.feed(call_frames(3, "y"));
  EXPECT_EQ(goaway_code(connection.all), 0);
}

TEST(http2_cut, the_same_bytes_cut_anywhere_give_the_same_answers) {
  const std::string bytes = preface + frame(settings, none, 0, "") + get(1, "/plaintext") +
                            post(3, "some body", {{"content-type", "a/b"}}) + call_frames(5, "x") +
                            header_frame(7, asks("PUT", "/echo")) +
                            frame(data, end_stream, 7, "y") +
                            header_frame(9, asks("GET", "/none"), end_stream) +
                            post(11, "abc", {{"content-length", "4"}});
  const auto answers = [&](std::size_t cut) {
    http_harness connection;
    connection.feed(bytes.substr(0, cut));
    connection.feed(bytes.substr(cut));
    auto all = answers_in(connection.all);
    for (auto& [stream, each] : all) {
      std::erase_if(each.header, [](const auto& field) { return field.first == "date"; });
    }
    return all;
  };
  const auto whole = answers(bytes.size());
  ASSERT_EQ(whole.size(), 6U);
  for (std::size_t cut = 1; cut < bytes.size(); ++cut) ASSERT_EQ(answers(cut), whole) << cut;
}

}  // namespace
}  // namespace bwos::server::rpc::test
