// SPDX-License-Identifier: Apache-2.0
// gRPC over HTTP/2 by its bytes: what each request is answered with, limits, ends, and that it does
// not matter how the bytes are cut.
#include <gtest/gtest.h>
#include <zlib.h>

#include <cstdlib>
#include <map>
#include <new>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "grpc/status_message.hpp"
#include "tests/grpc/calls_harness.hpp"

namespace {
/// So many allocations by `new` succeed yet, then one fails. Below zero: all succeed.
thread_local int allocations_left = -1;
thread_local int allocated = 0;  // by `new`, and not freed
}  // namespace

// Not inlined: g++ would take a `new` and the free() of its delete for a mismatch.
[[gnu::noinline]] void* operator new(std::size_t size) {
  if (allocations_left >= 0 && allocations_left-- == 0) throw std::bad_alloc();
  void* const made = std::malloc(size);
  if (made == nullptr) throw std::bad_alloc();
  ++allocated;
  return made;
}
[[gnu::noinline]] void operator delete(void* what) noexcept {
  allocated -= what != nullptr ? 1 : 0;
  std::free(what);
}
[[gnu::noinline]] void operator delete(void* what, std::size_t) noexcept {
  allocated -= what != nullptr ? 1 : 0;
  std::free(what);
}

namespace bwos::server::rpc::test {
namespace {

std::string reply_to(const std::string& name) {
  return message(named("Hello " + name));
}

std::string compressed(const std::string& bytes, bool as_gzip) {
  z_stream state{};
  EXPECT_EQ(deflateInit2(&state, 9, Z_DEFLATED, 15 + (as_gzip ? 16 : 0), 8, Z_DEFAULT_STRATEGY),
            Z_OK);
  std::string to(deflateBound(&state, bytes.size()) + 64, '\0');
  state.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  state.avail_in = static_cast<uInt>(bytes.size());
  state.next_out = reinterpret_cast<Bytef*>(to.data());
  state.avail_out = static_cast<uInt>(to.size());
  EXPECT_EQ(deflate(&state, Z_FINISH), Z_STREAM_END);
  to.resize(state.total_out);
  deflateEnd(&state);
  return to;
}

// Answers.

TEST(native_call, is_answered_by_header_message_and_trailers) {
  calls_harness connection;
  const auto first = connection.begin();
  ASSERT_GE(first.size(), 2U);
  EXPECT_EQ(first[0].type, settings);
  const auto fresh = connection.feed(call_frames(1, "world"));
  ASSERT_EQ(fresh.size(), 3U);
  EXPECT_EQ(fresh[0].type, headers);
  EXPECT_EQ(fresh[0].flags, end_headers);
  EXPECT_EQ(fresh[0].header, (fields{{":status", "200"}, {"content-type", "application/grpc"}}));
  EXPECT_EQ(fresh[1].type, data);
  EXPECT_EQ(fresh[1].flags, none);
  EXPECT_EQ(fresh[1].payload, reply_to("world"));
  EXPECT_EQ(fresh[2].type, headers);
  EXPECT_EQ(fresh[2].flags, end_headers | end_stream);
  EXPECT_EQ(fresh[2].header, (fields{{"grpc-status", "0"}}));
  EXPECT_EQ(connection.counted(metrics::grpc::started), 1U);
  EXPECT_EQ(connection.counted(metrics::grpc::ok), 1U);
}

TEST(native_call, burn_burns_what_was_asked_for_up_to_its_cap) {
  calls_harness connection({}, {}, 5);
  connection.begin();
  connection.feed(header_frame(1, request_header("/bwos.Work/Burn")) +
                  frame(data, end_stream, 1, message("\x08\x03")) +
                  header_frame(3, request_header("/bwos.Work/Burn")) +
                  frame(data, end_stream, 3, message("\x08\x64")));
  EXPECT_EQ(connection.answer_to(1).body, message("\x08\x03"));
  EXPECT_EQ(connection.answer_to(3).body, message("\x08\x05"));
  calls_harness without({}, {}, 0);
  without.begin();
  without.feed(header_frame(1, request_header("/bwos.Work/Burn")) +
               frame(data, end_stream, 1, message("\x08\x03")));
  EXPECT_EQ(without.answer_to(1).field("grpc-status"), "12");
}

TEST(native_call, a_message_may_be_spread_over_frames_and_padded) {
  calls_harness connection;
  connection.begin();
  const std::string bytes = message(named("a name of some length"));
  std::string frames = header_frame(1, request_header());
  for (const char each : bytes) frames += frame(data, none, 1, std::string(1, each));
  frames += frame(data, end_stream, 1, "");
  const std::string pad = "\x03" + bytes + std::string(3, '\0');
  frames += header_frame(3, request_header()) + frame(data, end_stream | padded, 3, pad);
  connection.feed(frames);
  EXPECT_EQ(connection.answer_to(1).body, reply_to("a name of some length"));
  EXPECT_EQ(connection.answer_to(3).body, reply_to("a name of some length"));
}

TEST(native_call, trailers_of_the_request_end_it) {
  calls_harness connection;
  connection.begin();
  connection.feed(header_frame(1, request_header()) + frame(data, none, 1, message(named("x"))) +
                  header_frame(1, {{"x-checksum", "1"}}, end_stream));
  EXPECT_EQ(connection.answer_to(1).body, reply_to("x"));
}

TEST(native_call, a_message_borrowed_from_a_receive_outlives_it) {
  calls_harness connection;
  connection.begin();
  // All of the message, and more of its frame to come: it must not be read from there any more.
  std::string head = header_frame(1, request_header());
  const std::string body = message(named("borrowed")) + message(named("second"));
  std::string whole = head + frame(data, end_stream, 1, body);
  const std::size_t cut = head.size() + 9 + message(named("borrowed")).size();
  std::string first = whole.substr(0, cut);
  connection.feed(first);
  first.assign(first.size(), '#');
  connection.feed(whole.substr(cut));
  EXPECT_EQ(connection.answer_to(1).field("grpc-status"), "12");
}

struct row {
  const char* what;
  fields header;
  std::string body;  // of one DATA frame with END_STREAM; empty: HEADERS has it
  std::string http_status;
  std::string grpc_status;
  std::string grpc_message = "(any)";
};

fields with(const std::string& name, const std::string& value) {
  fields changed = request_header();
  for (auto& [key, old] : changed) {
    if (key == name) {
      old = value;
      return changed;
    }
  }
  changed.emplace_back(name, value);
  return changed;
}

std::vector<row> rows() {
  const std::string good = message(named("x"));
  const std::string gzip = message(compressed(named("x"), true), 1);
  const std::string deflate = message(compressed(named("x"), false), 1);
  fields no_te = request_header();
  no_te.erase(no_te.begin() + 4);
  return {
      {"good", request_header(), good, "200", "0", "(none)"},
      {"without te", no_te, good, "200", "0"},
      {"content-type +proto", with("content-type", "application/grpc+proto"), good, "200", "0"},
      {"content-type +json", with("content-type", "application/grpc+json"), good, "200", "12"},
      {"content-type ;", with("content-type", "application/grpc;a=b"), good, "200", "0"},
      {"content-type other", with("content-type", "application/json"), good, "415", "(none)"},
      {"content-type grpc-web", with("content-type", "application/grpc-web"), good, "415",
       "(none)"},
      {"host as the authority", request_header(hello_path, {{"host", "A"}}), good, "200", "0"},
      {"host that is not the authority", request_header(hello_path, {{"host", "b"}}), good, "400",
       "(none)"},
      {"method GET", with(":method", "GET"), good, "405", "(none)"},
      {"unknown method", with(":path", "/helloworld.Greeter/Nothing"), good, "200", "12", "(none)"},
      {"unknown service", with(":path", "/nobody.Knows/Me"), good, "200", "12", "(none)"},
      {"path without a method", with(":path", "/"), good, "200", "12"},
      {"no message", request_header(), "", "200", "12"},
      {"no message in DATA", request_header(), std::string(), "200", "12"},
      {"two messages", request_header(), good + good, "200", "12"},
      {"half a message", request_header(), good.substr(0, 7), "200", "13"},
      {"half a prefix", request_header(), good.substr(0, 3), "200", "13"},
      {"bad protobuf", request_header(), message("\x0a\x7f"), "200", "13",
       "Unable to parse request"},
      {"not UTF-8", request_header(), message("\x0a\x02\xff\xfe"), "200", "13"},
      {"empty message", request_header(), message(""), "200", "0"},
      {"bad flag", request_header(), message(named("x"), 2), "200", "13"},
      {"gzip", with("grpc-encoding", "gzip"), gzip, "200", "0"},
      {"deflate", with("grpc-encoding", "deflate"), deflate, "200", "0"},
      {"encoding announced, not used", with("grpc-encoding", "gzip"), good, "200", "0"},
      {"identity", with("grpc-encoding", "identity"), good, "200", "0"},
      {"flag without encoding", request_header(), gzip, "200", "13"},
      {"flag with identity", with("grpc-encoding", "identity"), gzip, "200", "13"},
      {"unknown encoding", with("grpc-encoding", "snappy"), good, "200", "12"},
      {"not gzip", with("grpc-encoding", "gzip"), message("12345", 1), "200", "13"},
      {"gzip cut off", with("grpc-encoding", "gzip"),
       message(compressed(named("x"), true).substr(0, 15), 1), "200", "13"},
      {"gzip and more", with("grpc-encoding", "gzip"),
       message(compressed(named("x"), true) + "more", 1), "200", "13"},
      {"timeout", with("grpc-timeout", "10S"), good, "200", "0"},
      {"timeout of nothing", with("grpc-timeout", "0n"), good, "200", "4"},
      {"timeout malformed", with("grpc-timeout", "soon"), good, "200", "13"},
      {"timeout too long", with("grpc-timeout", "123456789S"), good, "200", "13"},
      {"timeout negative", with("grpc-timeout", "-1S"), good, "200", "13"},
      {"handler throws", with(":path", "/test/Throw"), good, "200", "2",
       "Unexpected error in RPC handling"},
      {"handler refuses", with(":path", "/test/Refuse"), message(named("100% of \xc3\xb6\n~")),
       "200", "5", "100%25 of %C3%B6%0A~"},
  };
}

std::string frames_of(const row& each, std::uint32_t stream) {
  if (each.body.empty()) return header_frame(stream, each.header, end_stream);
  return header_frame(stream, each.header) + frame(data, end_stream, stream, each.body);
}

TEST(native_call, each_row_has_its_status) {
  for (const row& each : rows()) {
    calls_harness connection;
    connection.begin();
    connection.feed(frames_of(each, 1));
    const answer got = connection.answer_to(1);
    EXPECT_EQ(got.status, each.http_status) << each.what;
    EXPECT_EQ(got.field("grpc-status"), each.grpc_status) << each.what;
    if (each.grpc_message != "(any)") {
      EXPECT_EQ(got.field("grpc-message"), each.grpc_message) << each.what;
    }
    EXPECT_TRUE(got.ended) << each.what;
    EXPECT_EQ(got.body.empty(), each.grpc_status != "0") << each.what;
    // Trailers-only is one frame of fields.
    EXPECT_EQ(got.header_frames, each.grpc_status == "0" ? 2 : 1) << each.what;
    EXPECT_EQ(connection.tested.is_over(), false) << each.what;
  }
}

task<rpc::status> refuses_at_length(rpc::context&, const helloworld::HelloRequest&,
                                    helloworld::HelloReply&) {
  co_return rpc::status{rpc::code::not_found, std::string(100'000, 'x')};
}

TEST(native_call, a_message_of_a_status_that_no_caller_would_take_is_cut) {
  calls_harness connection;
  connection.methods().unary("/test/RefuseAtLength", &refuses_at_length);
  connection.begin();
  connection.feed(call_frames(1, "x", "/test/RefuseAtLength"));
  const answer got = connection.answer_to(1);
  EXPECT_EQ(got.field("grpc-status"), "5");
  EXPECT_EQ(got.field("grpc-message"), std::string(rpc::status_message_bytes_max, 'x'));
  EXPECT_TRUE(got.ended);
  connection.feed(call_frames(3, "next"));
  EXPECT_EQ(connection.answer_to(3).body, reply_to("next"));
}

TEST(native_call, an_unknown_encoding_is_told_the_known_ones) {
  calls_harness connection;
  connection.begin();
  connection.feed(call_frames(1, "x", hello_path, {{"grpc-encoding", "br"}}));
  EXPECT_EQ(connection.answer_to(1).field("grpc-accept-encoding"), "identity, deflate, gzip");
}

TEST(native_call, the_same_bytes_cut_anywhere_give_the_same_answers) {
  std::string bytes = preface + frame(settings, none, 0, "");
  std::uint32_t stream = 1;
  for (const row& each : rows()) {
    bytes += frames_of(each, stream);
    stream += 2;
  }
  const std::string big(5000, 'y');  // beyond what fits into one piece
  bytes += call_frames(stream, big) + frame(ping, none, 0, "12345678");
  const auto answers = [&](std::size_t first, std::size_t step) {
    calls_harness connection;
    std::string_view rest = bytes;
    for (std::size_t size = first; !rest.empty(); size = step) {
      std::string piece(rest.substr(0, size));
      rest.remove_prefix(piece.size());
      connection.feed(piece);
      piece.assign(piece.size(), '#');  // what was borrowed is gone
    }
    auto found = answers_in(connection.all);
    // Whether the rest of a request was still to come when it was refused is a matter of the cut.
    for (auto& [stream, each] : found) {
      if (each.ended && each.reset == 0) each.reset = -1;
    }
    return found;
  };
  const auto expect_same = [](const auto& got, const auto& wanted, std::size_t cut) {
    ASSERT_EQ(got.size(), wanted.size()) << cut;
    for (const auto& [stream, each] : wanted)
      ASSERT_EQ(got.at(stream), each) << cut << ' ' << stream;
  };
  const auto whole = answers(bytes.size(), 1);
  ASSERT_EQ(whole.size(), rows().size() + 1);
  EXPECT_EQ(whole.at(stream).body, reply_to(big));
  for (const std::size_t step : {1U, 2U, 3U, 7U, 9U, 100U, 1000U}) {
    expect_same(answers(step, step), whole, step);
  }
  for (std::size_t cut = 1; cut < bytes.size(); ++cut) {
    expect_same(answers(cut, bytes.size()), whole, cut);
    if (HasFatalFailure()) return;
  }
}

/// All that its turn has run: on a slow machine that takes more than one.
TEST(native_call, all_of_a_batch_are_answered_by_one_pull) {
  calls_harness connection;
  connection.begin();
  std::string bytes;
  for (std::uint32_t i = 0; i < 100; ++i) bytes += call_frames(2 * i + 1, std::to_string(i));
  connection.tested.feed(std::as_bytes(std::span(bytes)), connection.now);
  frame_reader reader;
  std::vector<read_frame> all;
  for (;;) {  // ends: each turn runs one at least
    byte_buffer output;
    EXPECT_FALSE(connection.tested.pull(output));
    for (read_frame& each : reader.read(output.view())) all.push_back(std::move(each));
    EXPECT_EQ(answers_in(all).size(), connection.counted(metrics::grpc::ok));
    if (!connection.tested.has_left()) break;
    connection.tested.look(connection.now);
  }
  const auto answers = answers_in(all);
  ASSERT_EQ(answers.size(), 100U);
  for (std::uint32_t i = 0; i < 100; ++i) {
    EXPECT_EQ(answers.at(2 * i + 1).body, reply_to(std::to_string(i)));
  }
}

TEST(native_call, metadata_reaches_the_handler_and_bin_as_its_bytes) {
  calls_harness connection;
  connection.begin();
  const fields sent{{"x-a", "1"}, {"x-a", "2, 3"}, {"x-b-bin", "AP8="}, {"x-b-bin", "AA,/w"}};
  connection.feed(call_frames(1, "x-a", "/test/Metadata", sent) +
                  call_frames(3, "x-b-bin", "/test/Metadata", sent) +
                  call_frames(5, "x-c", "/test/Metadata", sent));
  EXPECT_EQ(connection.answer_to(1).body, message(named("1|2, 3|")));
  // The bytes are no UTF-8, which protobuf objects to only where it reads them.
  EXPECT_EQ(connection.answer_to(3).body, message(named(std::string("\0\xff|\0|\xff|", 7))));
  EXPECT_EQ(connection.answer_to(5).body, message(""));
}

// Ends before the end.

TEST(native_early, an_answer_before_the_requests_end_is_followed_by_a_reset_without_an_error) {
  calls_harness connection;
  connection.begin();
  const auto fresh = connection.feed(header_frame(1, request_header("/nobody.Knows/Me")));
  ASSERT_EQ(fresh.size(), 2U);
  EXPECT_EQ(fresh[0].type, headers);
  EXPECT_EQ(fresh[0].flags, end_headers | end_stream);
  EXPECT_EQ(fresh[1].type, rst_stream);
  EXPECT_EQ(fresh[1].payload, number(0));
  // What was on its way is ignored, and the next call served.
  connection.feed(frame(data, end_stream, 1, message(named("x"))) + call_frames(3, "next"));
  EXPECT_EQ(connection.answer_to(3).body, reply_to("next"));
}

TEST(native_early, a_message_above_the_limit_is_refused_by_its_length_alone) {
  calls_harness connection({}, {.message_bytes_max = 100});
  connection.begin();
  const std::string at_limit = named(std::string(98, 'x'));
  ASSERT_EQ(at_limit.size(), 100U);
  connection.feed(header_frame(1, request_header()) +
                  frame(data, end_stream, 1, message(at_limit)) +
                  header_frame(3, request_header()) + frame(data, none, 3, '\0' + number(101)));
  EXPECT_EQ(connection.answer_to(1).field("grpc-status"), "0");
  EXPECT_EQ(connection.answer_to(3).field("grpc-status"), "8");
  EXPECT_EQ(connection.answer_to(3).field("grpc-message"),
            "Received message larger than max (101 vs. 100)");
  EXPECT_EQ(connection.answer_to(3).reset, 0);
}

TEST(native_early, what_expands_beyond_the_limit_is_refused) {
  calls_harness connection({}, {.message_bytes_max = 1 << 20});
  connection.begin();
  const std::string bomb = compressed(named(std::string(std::size_t{64} << 20, 'x')), true);
  ASSERT_LT(bomb.size(), std::size_t{1} << 20);
  std::string frames = header_frame(1, request_header(hello_path, {{"grpc-encoding", "gzip"}}));
  const std::string bytes = message(bomb, 1);
  for (std::size_t at = 0; at < bytes.size(); at += 16384) {
    const bool last = at + 16384 >= bytes.size();
    frames += frame(data, last ? end_stream : none, 1, bytes.substr(at, 16384));
  }
  connection.feed(frames);
  EXPECT_EQ(connection.answer_to(1).field("grpc-status"), "8");
}

TEST(native_early, a_header_above_its_limit_is_refused_and_one_far_above_ends_the_connection) {
  h2::limits bounds;
  bounds.header_bytes_max = 1000;
  calls_harness connection(bounds);
  connection.begin();
  std::size_t used = 0;
  for (const auto& [name, value] : request_header()) used += name.size() + value.size() + 32;
  const std::size_t left = 1000 - used - 32 - 3;
  connection.feed(call_frames(1, "x", hello_path, {{"x-a", std::string(left, 'a')}}) +
                  call_frames(3, "x", hello_path, {{"x-a", std::string(left + 1, 'a')}}));
  EXPECT_EQ(connection.answer_to(1).field("grpc-status"), "0");
  EXPECT_EQ(connection.answer_to(3).field("grpc-status"), "8");
  const auto fresh =
      connection.feed(call_frames(5, "x", hello_path, {{"x-a", std::string(4000, 'a')}}));
  EXPECT_EQ(goaway_code(fresh), 11);
  EXPECT_TRUE(connection.tested.is_over());
}

// Handlers that suspend.

TEST(native_wait, a_handler_that_waits_is_answered_when_it_ends) {
  calls_harness connection;
  connection.begin();
  EXPECT_TRUE(connection.feed(call_frames(1, "a", "/test/Wait")).empty());
  EXPECT_EQ(connection.answer_to(1).ended, false);
  connection.feed(call_frames(3, "b"));  // others are served meanwhile
  EXPECT_EQ(connection.answer_to(3).body, reply_to("b"));
  EXPECT_TRUE(connection.tested.has_running());
  gate::instance().open();
  connection.look();
  EXPECT_EQ(connection.answer_to(1).body, message(named("waited a")));
  EXPECT_FALSE(connection.tested.has_running());
}

TEST(native_wait, one_that_ends_on_another_thread_comes_back) {
  calls_harness connection;
  connection.begin();
  for (std::uint32_t i = 0; i < 50; ++i) {
    connection.feed(call_frames(2 * i + 1, std::to_string(i), "/test/Wait"));
  }
  std::thread other([] { gate::instance().open(); });
  while (connection.tested.has_running()) connection.look();
  other.join();
  for (std::uint32_t i = 0; i < 50; ++i) {
    EXPECT_EQ(connection.answer_to(2 * i + 1).body, message(named("waited " + std::to_string(i))));
  }
}

TEST(native_wait, a_deadline_answers_and_cancels) {
  calls_harness connection;
  connection.begin();
  connection.feed(call_frames(1, "a", "/test/Wait", {{"grpc-timeout", "1S"}}) +
                  call_frames(3, "b", "/test/Wait", {{"grpc-timeout", "2S"}}));
  EXPECT_LT(connection.tested.deadline(), connection.now + 1100ms);
  connection.now += 1500ms;
  connection.look();
  EXPECT_EQ(connection.answer_to(1).field("grpc-status"), "4");
  EXPECT_EQ(connection.answer_to(1).field("grpc-message"), "Deadline Exceeded");
  EXPECT_FALSE(connection.answer_to(3).ended);
  gate::instance().open();
  EXPECT_EQ(gate::instance().cancelled, 1);
  connection.look();
  EXPECT_TRUE(connection.answer_to(1).body.empty());
  EXPECT_EQ(connection.answer_to(3).body, message(named("waited b")));
  EXPECT_EQ(connection.counted(metrics::grpc::cancelled), 1U);
  EXPECT_EQ(connection.counted(metrics::grpc::ok), 1U);
}

TEST(native_wait, a_deadline_also_ends_a_request_that_does_not_come) {
  calls_harness connection;
  connection.begin();
  connection.feed(header_frame(1, request_header(hello_path, {{"grpc-timeout", "10m"}})));
  connection.now += 20ms;
  connection.look();
  EXPECT_EQ(connection.answer_to(1).field("grpc-status"), "4");
  EXPECT_EQ(connection.answer_to(1).reset, 0);
}

TEST(native_wait, a_deadline_is_kept_wherever_its_header_was_cut) {
  const std::string whole =
      header_frame(1, request_header(hello_path, {{"grpc-timeout", "1S"}, {"x-a", "b"}}));
  for (std::size_t cut = 1; cut < whole.size(); ++cut) {
    calls_harness connection;
    connection.begin();
    connection.feed(whole.substr(0, cut));
    connection.feed(whole.substr(cut));
    EXPECT_EQ(connection.tested.deadline(), connection.now + 1s) << cut;
    connection.now += 1s;
    connection.look();
    ASSERT_EQ(connection.answer_to(1).field("grpc-status"), "4") << cut;
  }
}

TEST(native_wait, the_last_of_two_timeouts_holds_wherever_their_header_was_cut) {
  const std::string whole =
      header_frame(1, request_header(hello_path, {{"grpc-timeout", "1S"}, {"grpc-timeout", "5S"}}));
  for (std::size_t cut = 1; cut < whole.size(); ++cut) {
    calls_harness connection;
    connection.begin();
    connection.feed(whole.substr(0, cut));
    connection.feed(whole.substr(cut));
    EXPECT_EQ(connection.tested.deadline(), connection.now + 5s) << cut;
    connection.feed(frame(rst_stream, none, 1, number(8)));  // nothing of it may be left
    connection.now += 6s;
    EXPECT_TRUE(connection.look().empty()) << cut;
    connection.feed(call_frames(3, "next"));
    ASSERT_EQ(connection.answer_to(3).body, reply_to("next")) << cut;
  }
}

TEST(native_wait, a_reset_cancels_and_the_answer_is_dropped) {
  calls_harness connection;
  connection.begin();
  connection.feed(call_frames(1, "a", "/test/Wait"));
  connection.feed(frame(rst_stream, none, 1, number(8)));
  gate::instance().open();
  EXPECT_EQ(gate::instance().cancelled, 1);
  EXPECT_TRUE(connection.look().empty());
  EXPECT_FALSE(connection.tested.has_running());
  EXPECT_EQ(connection.counted(metrics::grpc::cancelled), 1U);
}

TEST(native_wait, a_call_reset_in_the_batch_that_brings_it_is_not_run) {
  calls_harness connection;
  connection.begin();
  connection.feed(call_frames(1, "a") + frame(rst_stream, none, 1, number(8)));
  EXPECT_EQ(connection.counted(metrics::grpc::started), 0U);
}

TEST(native_wait, a_lost_connection_cancels_all) {
  calls_harness connection;
  connection.begin();
  connection.feed(call_frames(1, "a", "/test/Wait") + call_frames(3, "b", "/test/Wait"));
  connection.tested.lost();
  EXPECT_TRUE(connection.tested.has_running());
  gate::instance().open();
  EXPECT_EQ(gate::instance().cancelled, 2);
  connection.tested.bury();
  EXPECT_FALSE(connection.tested.has_running());
}

// No memory.

task<rpc::status> throws_the_last(rpc::context&, const helloworld::HelloRequest&,
                                  helloworld::HelloReply&) {
  allocations_left = 0;
  throw 1;
  co_return rpc::status{};
}

TEST(native_memory, a_handler_that_throws_when_there_is_none_is_answered) {
  calls_harness connection;
  connection.methods().unary("/test/ThrowTheLast", &throws_the_last);
  connection.begin();
  connection.feed(call_frames(1, "x", "/test/ThrowTheLast"));
  EXPECT_EQ(allocations_left, -1);  // it failed
  EXPECT_EQ(connection.answer_to(1).field("grpc-status"), "2");
  EXPECT_EQ(connection.answer_to(1).field("grpc-message"), "(none)");
}

task<rpc::status> waits_and_refuses(rpc::context&, const helloworld::HelloRequest& request,
                                    helloworld::HelloReply&) {
  co_await gate::instance().pass();
  co_return rpc::status{rpc::code::not_found, request.name()};
}

TEST(native_memory, what_ended_with_a_call_that_could_not_be_answered_is_buried_too) {
  calls_harness connection;
  connection.methods().unary("/test/WaitAndRefuse", &waits_and_refuses);
  connection.begin();
  const std::string name(100, 'x');
  connection.feed(call_frames(1, name, "/test/WaitAndRefuse") +
                  call_frames(3, name, "/test/WaitAndRefuse") +
                  call_frames(5, name, "/test/WaitAndRefuse"));
  gate::instance().open();
  allocations_left = 0;
  EXPECT_THROW(connection.tested.look(connection.now), std::bad_alloc);
  EXPECT_EQ(allocations_left, -1);
  EXPECT_TRUE(connection.tested.has_running());
  connection.tested.lost();
  EXPECT_FALSE(connection.tested.has_running());  // nobody would push, to end a wait for them
}

TEST(native_memory, wherever_it_ends_what_was_started_is_counted_as_ended) {
  const std::string bytes = call_frames(1, std::string(100, 'x'));
  bool failed = true;
  for (int before = 0; failed; ++before) {  // ends: no call needs more than some
    ASSERT_LT(before, 1000);
    calls_harness connection;
    connection.begin();
    allocations_left = before;
    try {
      connection.tested.feed(std::as_bytes(std::span(bytes)), connection.now);
    } catch (const std::bad_alloc&) {
    }
    failed = std::exchange(allocations_left, -1) < 0;
    connection.tested.lost();
    EXPECT_EQ(connection.counted(metrics::grpc::started),
              connection.counted(metrics::grpc::ok) + connection.counted(metrics::grpc::failed) +
                  connection.counted(metrics::grpc::cancelled))
        << before;
  }
}

TEST(native_memory, a_call_that_ended_and_was_not_taken_goes_with_its_connection) {
  calls_harness connection;
  const std::string bytes = preface + frame(settings, none, 0, "") +
                            call_frames(1, "a", "/test/Wait") + call_frames(3, "b", "/test/Wait");
  const auto left_by_one = [&] {
    const int before = allocated;
    {
      h2::endpoint tested(connection.of(), {}, connection.now);
      tested.feed(std::as_bytes(std::span(bytes)), connection.now);
      gate::instance().open();
    }
    return allocated - before;
  };
  left_by_one();  // what is made once only
  EXPECT_EQ(left_by_one(), 0);
}

// Limits.

TEST(native_limits, streams_above_their_number_are_refused) {
  h2::limits bounds;
  bounds.streams_max = 2;
  calls_harness connection(bounds);
  connection.begin();
  connection.feed(call_frames(1, "a", "/test/Wait") + call_frames(3, "b", "/test/Wait"));
  EXPECT_FALSE(connection.tested.is_over());
  // It has acknowledged that number: PROTOCOL_ERROR.
  EXPECT_EQ(goaway_code(connection.feed(call_frames(5, "c", "/test/Wait"))), 1);
  calls_harness fresh(bounds);  // whose SETTINGS the peer has not acknowledged
  fresh.feed(preface + frame(settings, none, 0, "") + call_frames(1, "a", "/test/Wait") +
             call_frames(3, "b", "/test/Wait") + call_frames(5, "c", "/test/Wait"));
  EXPECT_EQ(fresh.answer_to(5).reset, 7);
}

TEST(native_limits, handlers_above_their_number_are_refused_also_if_their_calls_are_gone) {
  calls_harness connection({.handlers_max = 2});
  connection.begin();
  connection.feed(call_frames(1, "a", "/test/Wait") + call_frames(3, "b", "/test/Wait") +
                  frame(rst_stream, none, 1, number(8)) + frame(rst_stream, none, 3, number(8)));
  connection.feed(call_frames(5, "a", "/test/Wait"));
  connection.feed(call_frames(7, "a", "/test/Wait"));
  connection.feed(frame(rst_stream, none, 5, number(8)) + frame(rst_stream, none, 7, number(8)));
  connection.feed(call_frames(9, "c", "/test/Wait"));
  EXPECT_EQ(connection.answer_to(9).reset, 7);
  gate::instance().open();
  connection.look();
  connection.feed(call_frames(11, "d"));
  EXPECT_EQ(connection.answer_to(11).body, reply_to("d"));
}

TEST(native_limits, acknowledgements_above_their_number_that_wait_end_the_connection) {
  h2::limits bounds;
  bounds.acks_max = 5;
  bounds.ping_strikes_max = 0;
  const auto pings = [](int count) {
    std::string all;
    for (int i = 0; i < count; ++i) all += frame(ping, none, 0, "12345678");
    return all;
  };
  calls_harness connection(bounds);
  connection.begin();
  for (int i = 0; i < 3; ++i) EXPECT_EQ(connection.feed(pings(5)).size(), 5U);  // those that go
  EXPECT_EQ(goaway_code(connection.feed(pings(6))), 11);
  EXPECT_TRUE(connection.tested.is_over());
}

/// SETTINGS_INITIAL_WINDOW_SIZE.
const std::string no_window = number(4, 2) + number(0);

TEST(native_limits, an_answer_waits_for_its_window_and_goes_on_with_it) {
  calls_harness connection;
  connection.begin(no_window);
  connection.feed(call_frames(1, "x"));
  EXPECT_EQ(connection.answer_to(1).body, "");
  EXPECT_EQ(connection.answer_to(1).status, "200");
  connection.feed(frame(window_update, none, 1, number(3)));
  EXPECT_EQ(connection.answer_to(1).body, reply_to("x").substr(0, 3));
  connection.feed(frame(window_update, none, 1, number(1000)));
  EXPECT_EQ(connection.answer_to(1).body, reply_to("x"));
  EXPECT_TRUE(connection.answer_to(1).ended);
}

TEST(native_limits, answers_that_nobody_takes_make_new_calls_refused) {
  h2::limits bounds;
  bounds.output_bytes_max = 1000;
  calls_harness connection(bounds);
  connection.begin(no_window);
  connection.feed(call_frames(1, "2000", "/test/Large"));
  connection.feed(call_frames(3, "x"));
  EXPECT_EQ(connection.answer_to(3).reset, 7);
  connection.feed(frame(window_update, none, 1, number(5000)));
  connection.feed(call_frames(5, "x"));
  EXPECT_EQ(connection.answer_to(5).status, "200");
  connection.feed(frame(rst_stream, none, 5, number(8)));  // what waited is forgotten
  connection.feed(call_frames(7, "2000", "/test/Large"));
  EXPECT_EQ(connection.answer_to(7).status, "200");
}

TEST(native_limits, answers_that_nobody_takes_make_calls_of_the_same_batch_refused) {
  h2::limits bounds;
  bounds.output_bytes_max = 1000;
  calls_harness connection(bounds);
  connection.begin(no_window);
  connection.feed(call_frames(1, "2000", "/test/Large") + call_frames(3, "2000", "/test/Large") +
                  call_frames(5, "x"));
  EXPECT_EQ(connection.answer_to(1).status, "200");
  EXPECT_EQ(connection.answer_to(3).reset, 7);
  EXPECT_EQ(connection.answer_to(5).reset, 7);
  EXPECT_EQ(connection.counted(metrics::grpc::started), 1U);
}

TEST(native_limits, a_call_that_was_refused_leaves_no_header_to_wait_for) {
  h2::limits bounds;
  bounds.output_bytes_max = 1000;
  const std::string refused = call_frames(3, "x");
  for (std::size_t cut = 1; cut <= refused.size(); ++cut) {
    calls_harness connection(bounds);
    connection.begin(no_window);
    connection.feed(call_frames(1, "2000", "/test/Large"));
    connection.feed(refused.substr(0, cut));
    connection.feed(refused.substr(cut));
    ASSERT_EQ(connection.answer_to(3).reset, 7) << cut;
    connection.now += bounds.header_timeout + 1s;
    EXPECT_EQ(goaway_code(connection.look()), -1) << cut;
    connection.feed(frame(window_update, none, 1, number(5000)));
    connection.feed(call_frames(5, "x"));
    ASSERT_EQ(connection.answer_to(5).status, "200") << cut;
  }
}

TEST(native_limits, a_call_answered_amid_its_trailers_leaves_no_header_to_wait_for) {
  h2::limits bounds;
  calls_harness connection(bounds);
  connection.begin();
  connection.feed(header_frame(1, request_header(hello_path, {{"grpc-timeout", "1S"}})) +
                  call_frames(3, "a", "/test/Wait"));  // keeps it from being idle
  const std::string trailers = header_frame(1, {{"x-a", "1"}, {"x-b", "2"}}, end_stream);
  connection.feed(trailers.substr(0, 15));
  connection.now += 1s;
  connection.look();
  EXPECT_EQ(connection.answer_to(1).field("grpc-status"), "4");
  connection.feed(trailers.substr(15));
  connection.now += bounds.header_timeout + 1s;
  EXPECT_EQ(goaway_code(connection.look()), -1);
  connection.feed(call_frames(5, "next"));
  EXPECT_EQ(connection.answer_to(5).body, reply_to("next"));
}

TEST(native_limits, a_large_answer_is_pulled_in_pieces) {
  calls_harness connection;
  connection.begin(number(4, 2) + number(1 << 24));
  connection.feed(frame(window_update, none, 0, number(1 << 24)));
  const std::string bytes = call_frames(1, "1000000", "/test/Large");
  connection.tested.feed(std::as_bytes(std::span(bytes)), connection.now);
  byte_buffer output;
  EXPECT_TRUE(connection.tested.pull(output));
  EXPECT_LT(output.size(), h2::send_bytes + 20'000);
}

TEST(native_floods, each_ends_the_connection) {
  std::string resets;
  for (std::uint32_t i = 0; i < 1500; ++i) {
    resets +=
        header_frame(2 * i + 1, request_header()) + frame(rst_stream, none, 2 * i + 1, number(8));
  }
  std::string continuations = frame(headers, none, 1, hpack(request_header()));
  for (int i = 0; i < 20; ++i)
    continuations += frame(continuation_frame, none, 1, hpack({{"x", "y"}}));
  std::string empty_continuations = frame(headers, none, 1, hpack(request_header()));
  for (int i = 0; i < 20; ++i) empty_continuations += frame(continuation_frame, none, 1, "");
  const auto repeat = [](int times, const std::string& what) {
    std::string all;
    for (int i = 0; i < times; ++i) all += what;
    return all;
  };
  struct flood {
    const char* what;
    std::string bytes;
    int code;
  };
  const std::string closed =
      header_frame(1, request_header()) + frame(rst_stream, none, 1, number(8));
  const std::vector<flood> floods{
      {"PING, unread", repeat(1100, frame(ping, none, 0, "12345678")), 11},
      {"SETTINGS, unread", repeat(1100, frame(settings, none, 0, "")), 11},
      {"PRIORITY", repeat(10'100, frame(priority, none, 5, number(0) + "x")), 11},
      {"empty DATA", header_frame(1, request_header()) + repeat(10'100, frame(data, none, 1, "")),
       11},
      {"WINDOW_UPDATE", repeat(10'100, frame(window_update, none, 0, number(1))), 11},
      {"answers to no PING", repeat(10'100, frame(ping, ack, 0, "12345678")), 11},
      {"RST_STREAM of no stream", repeat(10'100, frame(rst_stream, none, 5, number(8))), 11},
      {"rapid reset", resets, 2},
      {"CONTINUATION", continuations, 11},
      {"empty CONTINUATION", empty_continuations, 11},
      {"frames of an unknown type", repeat(10'100, frame(unknown, none, 0, "")), 11},
      {"large ones", repeat(10'100, frame(unknown, none, 1, std::string(100, 'x'))), 11},
      {"ALTSVC", repeat(10'100, frame(altsvc, none, 0, std::string(2, '\0'))), 11},
      {"padded empty DATA",
       header_frame(1, request_header()) +
           repeat(10'100, frame(data, padded, 1, std::string("\2\0\0", 3))),
       11},
      {"DATA without even padding",
       header_frame(1, request_header()) +
           repeat(10'100, frame(data, padded, 1, std::string(1, '\0'))),
       11},
      {"DATA on a closed stream", closed + repeat(10'100, frame(data, none, 1, "x")), 11},
      {"empty DATA on a closed stream", closed + repeat(10'100, frame(data, none, 1, "")), 11},
      {"ends of a closed stream", closed + repeat(10'100, frame(data, end_stream, 1, "")), 11},
      {"HEADERS on a closed stream", closed + repeat(10'100, header_frame(1, {{"x", "y"}})), 11},
      {"trailers on a closed stream",
       closed + repeat(10'100, header_frame(1, {{"x", "y"}}, end_stream)), 11},
      {"RST_STREAM on a closed stream",
       closed + repeat(1500, frame(rst_stream, none, 1, number(8))), 2},
      {"WINDOW_UPDATE on a closed stream",
       closed + repeat(10'100, frame(window_update, none, 1, number(1))), 11},
      {"PRIORITY on a closed stream",
       closed + repeat(10'100, frame(priority, none, 1, number(0) + "x")), 11},
  };
  h2::limits bounds;
  bounds.ping_strikes_max = 0;  // or strikes would be quicker
  for (const flood& each : floods) {
    calls_harness connection(bounds);
    connection.begin();
    EXPECT_EQ(goaway_code(connection.feed(each.bytes)), each.code) << each.what;
    EXPECT_TRUE(connection.tested.is_over()) << each.what;
  }
}

/// However they are cut: frames that are skipped without a word count once each.
TEST(native_floods, of_unknown_frames_are_counted_by_the_frame) {
  const std::string one = frame(unknown, none, 0, std::string(20, 'x'));
  for (const std::size_t step : {1U, 7U, 9U, 10U, 29U, 100U}) {
    std::string bytes;
    for (int i = 0; i < 9990; ++i) bytes += one;
    calls_harness connection;
    connection.begin();
    const auto feed_all = [&] {
      for (std::string_view rest = bytes; !rest.empty();) {
        const std::string_view piece = rest.substr(0, step);
        connection.tested.feed(std::as_bytes(std::span(piece)), connection.now);
        rest.remove_prefix(piece.size());
      }
      connection.pull();
    };
    feed_all();
    EXPECT_FALSE(connection.tested.is_over()) << step;
    bytes.clear();
    for (int i = 0; i < 20; ++i) bytes += one;
    feed_all();
    EXPECT_EQ(goaway_code(connection.all), 11) << step;
  }
}

/// As browsers do: PRIORITY_UPDATE (RFC 9218) and a frame of a type that nobody knows (RFC 8701),
/// which RFC 9113, 5.5, wants ignored.
TEST(native_floods, unknown_frames_that_come_with_calls_are_none) {
  calls_harness connection;
  connection.begin();
  const std::string extra = frame(priority_update, none, 0, number(1) + "u=1") +
                            frame(unknown, none, 0, "grease") +
                            frame(window_update, none, 0, number(16));
  for (std::uint32_t i = 0; i < 20'000; ++i) connection.feed(call_frames(2 * i + 1, "x") + extra);
  EXPECT_FALSE(connection.tested.is_over());
  EXPECT_EQ(connection.answer_to(39'999).body, reply_to("x"));
}

/// What a peer has sent before it learns that its call has been answered.
TEST(native_floods, what_crosses_an_early_answer_is_none) {
  calls_harness connection;
  connection.begin();
  const std::string piece(1000, 'x');
  for (std::uint32_t i = 0; i < 1000; ++i) {
    const std::uint32_t stream = 2 * i + 1;
    connection.feed(header_frame(stream, request_header("/helloworld.Greeter/Nothing")));
    std::string late;
    for (int j = 0; j < 40; ++j) late += frame(data, none, stream, piece);
    late += frame(data, end_stream, stream, "");
    connection.feed(late);
    ASSERT_FALSE(connection.tested.is_over()) << i;
    connection.now += 1ms;
  }
}

/// Each costs us a RST_STREAM, and nghttp2 counts only those that come.
TEST(native_floods, errors_of_streams_are_one) {
  const std::vector<std::pair<const char*, fields>> headers_of{{"empty HEADERS", {}},
                                                               {"no path", {{":method", "POST"}}}};
  for (const auto& [what, header] : headers_of) {
    calls_harness connection;
    connection.begin();
    for (std::uint32_t i = 0; i < 10'100; ++i) connection.feed(header_frame(2 * i + 1, header));
    EXPECT_EQ(connection.answer_to(1).reset, 1) << what;
    EXPECT_EQ(goaway_code(connection.all), 11) << what;
    EXPECT_TRUE(connection.tested.is_over()) << what;
  }
}

TEST(native_floods, what_a_lively_peer_sends_in_time_is_none) {
  h2::limits bounds;
  bounds.ping_strikes_max = 0;
  calls_harness connection(bounds);
  connection.begin();
  for (int i = 0; i < 20'000; ++i) {
    connection.now += 10ms;
    connection.feed(frame(ping, none, 0, "12345678"));
  }
  EXPECT_FALSE(connection.tested.is_over());
}

/// As grpc-go does: a PING and two WINDOW_UPDATEs for each call, at any speed.
TEST(native_floods, what_comes_with_calls_is_none) {
  calls_harness connection;
  connection.begin();
  const std::string extra = frame(ping, none, 0, "12345678") +
                            frame(window_update, none, 0, number(8)) +
                            frame(window_update, none, 0, number(8));
  for (std::uint32_t i = 0; i < 20'000; ++i) connection.feed(call_frames(2 * i + 1, "x") + extra);
  EXPECT_FALSE(connection.tested.is_over());
}

/// And a WINDOW_UPDATE for each 4 KiB that it takes, or that it gives.
TEST(native_floods, window_updates_for_large_messages_are_none) {
  calls_harness connection;
  connection.begin();
  for (std::uint32_t i = 0; i < 50; ++i) {
    const std::uint32_t stream = 2 * i + 1;
    connection.feed(call_frames(stream, "1000000", "/test/Large"));
    for (int taken = 0; taken <= 1'000'000; taken += 4096) {
      connection.feed(frame(window_update, none, 0, number(4096)) +
                      frame(window_update, none, stream, number(4096)));
    }
    ASSERT_EQ(connection.answer_to(stream).body.size(), 1'000'009U) << stream;
  }
  EXPECT_FALSE(connection.tested.is_over());
}

/// A window that grows by a byte lets a byte go: work for us, and no reason to go on.
TEST(native_floods, bytes_of_an_answer_taken_one_by_one_are_one) {
  calls_harness connection;
  connection.begin(number(4, 2) + number(0));  // INITIAL_WINDOW_SIZE 0
  connection.feed(call_frames(1, "1000000", "/test/Large"));
  for (int i = 0; i < 10'100; ++i) connection.feed(frame(window_update, none, 1, number(1)));
  EXPECT_EQ(goaway_code(connection.all), 11);
  EXPECT_TRUE(connection.tested.is_over());
}

TEST(native_pings, that_come_too_soon_end_the_connection) {
  h2::limits bounds;
  bounds.ping_interval_min = 10s;
  bounds.ping_strikes_max = 3;
  const std::string one = frame(ping, none, 0, "12345678");
  for (const bool with_stream : {true, false}) {
    SCOPED_TRACE(with_stream);
    calls_harness connection(bounds);
    connection.begin();
    if (with_stream) connection.feed(call_frames(1, "a", "/test/Wait"));
    for (int i = 0; i < 4; ++i) {  // the first, and three strikes
      const auto answered = connection.feed(one);
      ASSERT_EQ(answered.size(), 1U);
      EXPECT_EQ(answered[0].flags, ack);
      connection.now += 9s;
    }
    connection.now += 1s;  // without a stream that is too soon, too
    const auto fifth = connection.feed(one);
    EXPECT_EQ(goaway_code(fifth), with_stream ? -1 : 11);
    const auto sixth = connection.feed(one);
    if (with_stream) {
      ASSERT_EQ(goaway_code(sixth), 11);
      EXPECT_EQ(sixth.back().payload, number(1) + number(11) + "too_many_pings");
    }
    EXPECT_TRUE(connection.tested.is_over());
  }
}

TEST(native_pings, between_answers_are_the_peers_business) {
  calls_harness connection;
  connection.begin();
  for (std::uint32_t i = 0; i < 100; ++i) {
    connection.feed(frame(ping, none, 0, "12345678") + call_frames(2 * i + 1, "x"));
    connection.feed(frame(ping, none, 0, "12345678"));
  }
  EXPECT_FALSE(connection.tested.is_over());
}

TEST(native_errors, what_is_not_http2_ends_the_connection) {
  calls_harness connection;
  EXPECT_EQ(goaway_code(connection.feed("GET / HTTP/1.1\r\nHost: a\r\n\r\n")), 1);
  EXPECT_TRUE(connection.tested.is_over());
  calls_harness second;
  second.begin();
  EXPECT_EQ(goaway_code(second.feed(frame(headers, end_headers, 1, "\xff\xff\xff"))), 9);
  EXPECT_TRUE(second.tested.is_over());
}

/// RFC 9113, 5.1.1; but 5.1 where it is the trailers of a stream that we have closed.
TEST(native_errors, a_stream_below_the_last_is_one_but_not_if_it_was_open) {
  calls_harness connection;
  connection.begin();
  connection.feed(call_frames(5, "x") + call_frames(7, "x"));
  EXPECT_EQ(connection.answer_to(7).body, reply_to("x"));
  EXPECT_EQ(connection.feed(header_frame(5, {{"x", "y"}}, end_stream)).size(), 0U);
  EXPECT_EQ(goaway_code(connection.feed(call_frames(3, "x"))), 1);
  EXPECT_EQ(connection.answer_to(3).status, "");
  calls_harness first;
  first.begin();
  first.feed(call_frames(3, "x"));
  EXPECT_EQ(goaway_code(first.feed(call_frames(1, "x"))), 1);
}

/// gRPC C++'s client sends it for a call that ends before its HEADERS are written.
TEST(native_errors, a_reset_of_a_stream_that_never_began_ends_nothing) {
  const std::string idle_reset = frame(rst_stream, none, 5, number(8));
  const std::string bytes =
      preface + frame(settings, none, 0, "") + frame(rst_stream, none, 1, number(8)) +
      call_frames(3, "a", "/test/Wait") + idle_reset + idle_reset + call_frames(7, "b") +
      frame(rst_stream, none, 5, number(8)) + frame(rst_stream, none, 9, number(8)) +
      call_frames(9, "c") + frame(ping, none, 0, "12345678");
  const auto expect_answers = [](calls_harness& connection, std::size_t cut) {
    gate::instance().open();
    connection.look();
    EXPECT_EQ(goaway_code(connection.all), -1) << cut;
    EXPECT_EQ(connection.answer_to(3).body, message(named("waited a"))) << cut;
    EXPECT_EQ(connection.answer_to(7).body, reply_to("b")) << cut;
    EXPECT_EQ(connection.answer_to(9).body, reply_to("c")) << cut;
    EXPECT_EQ(connection.all.back().type, headers) << cut;
    EXPECT_FALSE(connection.tested.is_over()) << cut;
  };
  for (std::size_t cut = 1; cut <= bytes.size(); ++cut) {
    calls_harness connection;
    connection.feed(bytes.substr(0, cut));
    connection.feed(bytes.substr(cut));
    expect_answers(connection, cut);
    EXPECT_EQ(connection.counted(metrics::grpc::started), 3U) << cut;
  }
  calls_harness slow;
  for (const char each : bytes) slow.feed(std::string(1, each));
  expect_answers(slow, 0);
}

TEST(native_errors, a_reset_that_is_wrong_otherwise_ends_the_connection) {
  const struct {
    const char* what;
    std::string bytes;
    int code;
  } rows[] = {
      {"of no stream of the peer's", frame(rst_stream, none, 2, number(8)), 1},
      {"of the connection", frame(rst_stream, none, 0, number(8)), 1},
      {"too short", frame(rst_stream, none, 1, number(8, 3)), 6},
      {"in a header",
       frame(headers, none, 1, hpack(request_header())) + frame(rst_stream, none, 3, number(8)), 1},
      {"in a header, later",
       frame(headers, none, 1, hpack(request_header())) +
           frame(continuation_frame, none, 1, hpack({{"x", "y"}})) +
           frame(rst_stream, none, 3, number(8)),
       1},
  };
  for (const auto& each : rows) {
    calls_harness connection;
    connection.begin();
    EXPECT_EQ(goaway_code(connection.feed(each.bytes)), each.code) << each.what;
  }
  calls_harness open;
  open.begin();
  open.feed(call_frames(1, "a", "/test/Wait"));
  open.feed(frame(rst_stream, none, 1, number(8)));
  gate::instance().open();
  EXPECT_EQ(gate::instance().cancelled, 1);
  EXPECT_EQ(goaway_code(open.all), -1);
}

// Requests and their windows.

/// SETTINGS_INITIAL_WINDOW_SIZE, for answers of any size.
const std::string wide_window = number(4, 2) + number(0x7fffffff);

/// The bytes of one request, sent as far as windows and `piece` let it.
struct upload {
  std::uint32_t stream;
  std::string bytes;
  std::size_t sent = 0;
  [[nodiscard]] bool is_over() const { return sent == bytes.size(); }
};

/// One round: a piece of each. False: no window let anything go.
bool send_round(calls_harness& to, std::vector<upload>& all, std::int64_t& sent) {
  bool any = false;
  for (upload& each : all) {
    const std::int64_t room =
        std::min({to.window(0, sent), to.window(each.stream, static_cast<std::int64_t>(each.sent)),
                  std::int64_t{16384}});
    if (each.is_over() || room <= 0) continue;
    const std::string piece = each.bytes.substr(each.sent, static_cast<std::size_t>(room));
    each.sent += piece.size();
    sent += static_cast<std::int64_t>(piece.size());
    to.feed(frame(data, each.is_over() ? end_stream : none, each.stream, piece));
    any = true;
  }
  return any;
}

std::vector<upload> open_uploads(calls_harness& to, std::uint32_t count, std::size_t size) {
  std::vector<upload> all;
  for (std::uint32_t i = 0; i < count; ++i) {
    all.push_back({2 * i + 1, message(named(std::string(size, 'x')))});
    to.feed(header_frame(2 * i + 1, request_header()));
  }
  return all;
}

TEST(native_window, unfinished_messages_keep_theirs_and_give_it_back_when_they_are_run) {
  calls_harness connection;
  connection.begin(wide_window);
  connection.feed(frame(window_update, none, 0, number(0x7fff0000)));
  auto all = open_uploads(connection, 16, 500'000);
  std::int64_t sent = 0;
  for (int i = 0; i < 30; ++i) send_round(connection, all, sent);
  // 7.8 million bytes, none of them finished: not one has been given back.
  EXPECT_EQ(connection.window(0, sent), h2::connection_window - sent);
  EXPECT_EQ(connection.window(1, static_cast<std::int64_t>(all[0].sent)),
            h2::stream_window - static_cast<std::int64_t>(all[0].sent));
  while (send_round(connection, all, sent)) {
  }
  for (const upload& each : all) {
    EXPECT_EQ(connection.answer_to(each.stream).field("grpc-status"), "0");
  }
  EXPECT_GT(connection.window(0, sent), h2::connection_window / 2);
}

TEST(native_window, what_is_larger_than_it_comes_through) {
  for (const std::uint32_t count : {1U, 10U}) {
    calls_harness connection;
    connection.begin(wide_window);
    connection.feed(frame(window_update, none, 0, number(0x7fff0000)));
    auto all = open_uploads(connection, count, 4'000'000);
    std::int64_t sent = 0;
    while (send_round(connection, all, sent)) {
    }
    for (const upload& each : all) {
      EXPECT_TRUE(each.is_over());
      EXPECT_EQ(connection.answer_to(each.stream).field("grpc-status"), "0");
    }
  }
}

TEST(native_window, messages_that_together_are_larger_than_it_do_not_wait_for_each_other) {
  calls_harness connection;
  connection.begin(wide_window);
  connection.feed(frame(window_update, none, 0, number(0x7fff0000)));
  auto all = open_uploads(connection, 100, 400'000);
  std::int64_t sent = 0;
  while (send_round(connection, all, sent)) {
  }
  for (const upload& each : all) ASSERT_TRUE(each.is_over()) << each.stream << ' ' << each.sent;
  EXPECT_GT(connection.window(0, sent), h2::connection_window / 2);
}

TEST(native_window, unfinished_messages_beyond_their_budget_are_refused) {
  h2::limits bounds;
  bounds.request_bytes_max = 1 << 20;
  calls_harness connection(bounds);
  connection.begin(wide_window);
  connection.feed(frame(window_update, none, 0, number(0x7fff0000)));
  auto all = open_uploads(connection, 2, 900'000);
  std::int64_t sent = 0;
  for (int i = 0; i < 50; ++i) send_round(connection, all, sent);
  // The one that came first when both had half a million; the other has all of the budget now.
  EXPECT_EQ(connection.answer_to(1).reset, 7);
  EXPECT_EQ(connection.answer_to(3).reset, -1);
  all.erase(all.begin());
  while (send_round(connection, all, sent)) {
  }
  EXPECT_EQ(connection.answer_to(3).field("grpc-status"), "0");
  EXPECT_GT(connection.window(0, sent), h2::connection_window / 2);
}

TEST(native_window, what_was_refused_or_reset_gives_its_bytes_back) {
  for (const bool refused : {false, true}) {
    calls_harness connection;
    connection.begin(wide_window);
    connection.feed(frame(window_update, none, 0, number(0x7fff0000)));
    std::int64_t sent = 0;
    for (std::uint32_t i = 0; i < 100; ++i) {
      const std::uint32_t stream = 2 * i + 1;
      std::string frames = header_frame(
          stream, request_header(hello_path, {{"grpc-timeout", refused ? "10m" : "1H"}}));
      frames += frame(data, none, stream, '\0' + number(400'000));
      for (int j = 0; j < 20; ++j) frames += frame(data, none, stream, std::string(16'384, 'x'));
      sent += 5 + 20 * 16'384;
      connection.feed(frames);
      if (refused) connection.now += 10ms;
      connection.feed(refused ? "" : frame(rst_stream, none, stream, number(8)));
      ASSERT_GT(connection.window(0, sent), h2::connection_window / 2) << i;
    }
  }
}

// Time.

TEST(native_time, a_request_that_drips_ends) {
  calls_harness connection;
  connection.begin();
  connection.feed(header_frame(1, request_header()) + header_frame(3, request_header()) +
                  call_frames(5, "a", "/test/Wait") +
                  frame(data, none, 3, message(named("all, but for its end"))) +
                  frame(data, none, 1, '\0' + number(100)));
  for (int i = 0; i < 40; ++i) {
    EXPECT_FALSE(i < 30 && connection.answer_to(1).ended);
    connection.feed(frame(data, none, 1, "x"));
    connection.now += 1s;
    if (connection.now >= connection.tested.deadline()) connection.look();
  }
  EXPECT_EQ(connection.answer_to(1).field("grpc-status"), "4");
  EXPECT_EQ(connection.answer_to(3).field("grpc-status"), "4");
  EXPECT_FALSE(connection.answer_to(5).ended);
}

TEST(native_time, an_answer_that_its_window_does_not_let_go_ends) {
  calls_harness connection;
  connection.begin(no_window);
  connection.feed(call_frames(1, "100", "/test/Large") + call_frames(3, "20000", "/test/Large"));
  for (int i = 0; i < 50; ++i) {
    connection.feed(frame(window_update, none, 3, number(250)));
    connection.now += 1s;
    if (connection.now >= connection.tested.deadline()) connection.look();
    EXPECT_FALSE(i < 30 && connection.answer_to(1).reset != -1);
  }
  EXPECT_EQ(connection.answer_to(1).reset, 8);
  EXPECT_EQ(connection.answer_to(3).reset, -1);
}

TEST(native_time, a_handshake_a_header_and_idleness_have_their_ends) {
  h2::limits bounds;
  bounds.handshake_timeout = 1s;
  bounds.header_timeout = 2s;
  bounds.idle_timeout = 10s;
  calls_harness silent(bounds);
  EXPECT_EQ(silent.tested.deadline(), silent.now + 1s);
  silent.now += 1s;
  EXPECT_EQ(goaway_code(silent.look()), 1);
  EXPECT_TRUE(silent.tested.is_over());

  calls_harness slow(bounds);
  slow.begin();
  EXPECT_EQ(slow.tested.deadline(), slow.now + 10s);
  slow.feed(frame(headers, none, 1, hpack(request_header())));
  EXPECT_EQ(slow.tested.deadline(), slow.now + 2s);
  slow.now += 1s;
  slow.feed(frame(continuation_frame, none, 1, hpack({{"x", "y"}})));  // does not prolong it
  slow.now += 1s;
  EXPECT_EQ(goaway_code(slow.look()), 1);

  // One that follows another has a time of its own, wherever the receives are cut.
  calls_harness busy(bounds);
  busy.begin();
  const std::string begun = frame(headers, none, 1, hpack(request_header()));
  busy.feed(begun);
  for (std::uint32_t stream = 1; stream < 11; stream += 2) {
    busy.now += 1s;
    busy.feed(frame(continuation_frame, end_headers, stream, "") +
              frame(headers, none, stream + 2, hpack(request_header())));
    ASSERT_EQ(busy.tested.deadline(), busy.now + 2s) << stream;
  }
  busy.now += 2s;
  EXPECT_EQ(goaway_code(busy.look()), 1);

  calls_harness idle(bounds);
  idle.begin();
  idle.now += 9s;
  idle.feed(call_frames(1, "x"));
  EXPECT_EQ(idle.tested.deadline(), idle.now + 10s);
  idle.now += 9s;
  EXPECT_EQ(goaway_code(idle.look()), -1);
  idle.feed(call_frames(3, "a", "/test/Wait"));
  idle.now += 100s;
  EXPECT_EQ(goaway_code(idle.look()), -1);  // not while a call is open
  gate::instance().open();
  idle.look();
  idle.now += 10s;
  EXPECT_EQ(goaway_code(idle.look()), 0);
  EXPECT_TRUE(idle.tested.is_over());
}

TEST(native_time, what_a_connection_has_spare_is_given_back_once_behind_its_calls) {
  calls_harness idle;
  idle.begin();
  idle.feed(call_frames(1, "x"));
  EXPECT_EQ(idle.tested.deadline(), idle.now + h2::spare_kept);
  idle.now += h2::spare_kept;
  EXPECT_TRUE(idle.look().empty());
  EXPECT_EQ(idle.tested.deadline(), idle.now - h2::spare_kept + h2::limits{}.idle_timeout);
  idle.feed(call_frames(3, "again"));
  EXPECT_EQ(idle.answer_to(3).body, reply_to("again"));
  EXPECT_EQ(idle.tested.deadline(), idle.now + h2::spare_kept);
}

TEST(native_drain, the_peer_is_told_twice_and_its_calls_end) {
  calls_harness connection;
  connection.begin();
  connection.feed(call_frames(1, "a", "/test/Wait"));
  connection.leaving = true;
  const auto notice = connection.look();
  ASSERT_EQ(notice.size(), 2U);
  const read_frame& told = notice[0];
  const read_frame& probe = notice[1];  // its answer means that the notice has come, too
  ASSERT_EQ(told.type, goaway);
  EXPECT_EQ(told.payload, number(0x7fffffff) + number(0));
  ASSERT_EQ(probe.type, ping);
  connection.feed(call_frames(3, "late"));  // was on its way
  EXPECT_EQ(connection.answer_to(3).body, reply_to("late"));
  const auto second = connection.feed(frame(ping, ack, 0, probe.payload));
  ASSERT_EQ(second.size(), 1U);
  EXPECT_EQ(second[0].payload, number(3) + number(0));
  EXPECT_FALSE(connection.tested.is_over());
  gate::instance().open();
  connection.look();
  EXPECT_EQ(connection.answer_to(1).body, message(named("waited a")));
  EXPECT_TRUE(connection.tested.is_over());
}

TEST(native_time, a_silent_peer_is_asked_whether_it_is_there) {
  h2::limits bounds;
  bounds.body_timeout = bounds.write_timeout = 24h;  // no sweep between
  bounds.keepalive = 10s;
  bounds.keepalive_timeout = 2s;
  calls_harness connection(bounds);
  connection.begin();
  connection.feed(call_frames(1, "a", "/test/Wait"));
  EXPECT_EQ(connection.tested.deadline(), connection.now + 10s);
  connection.now += 10s;
  const auto asked = connection.look();
  ASSERT_EQ(asked.size(), 1U);
  EXPECT_EQ(asked[0].type, ping);
  EXPECT_EQ(asked[0].flags, none);
  connection.now += 1s;
  EXPECT_TRUE(connection.look().empty());
  connection.feed(frame(ping, ack, 0, asked[0].payload));
  EXPECT_EQ(connection.tested.deadline(), connection.now + 10s);
  connection.now += 10s;
  EXPECT_EQ(connection.look().size(), 1U);
  EXPECT_EQ(connection.tested.deadline(), connection.now + 2s);
  connection.now += 2s;
  EXPECT_EQ(goaway_code(connection.look()), 0);
  EXPECT_TRUE(connection.tested.is_over());
}

TEST(native_time, an_old_connection_is_told_to_go_and_its_calls_have_their_grace) {
  h2::limits bounds;
  bounds.body_timeout = bounds.write_timeout = 24h;  // no sweep between
  bounds.age_max = 100s;
  bounds.age_grace = 20s;
  calls_harness connection(bounds);
  connection.begin();
  connection.feed(call_frames(1, "a", "/test/Wait"));
  const auto begun = connection.now;
  EXPECT_GE(connection.tested.deadline(), begun + 90s);
  EXPECT_LE(connection.tested.deadline(), begun + 110s);
  connection.now = begun + 89s;
  EXPECT_TRUE(connection.look().empty());
  connection.now = begun + 110s;
  const auto told = connection.look();
  ASSERT_EQ(told.size(), 2U);
  EXPECT_EQ(told[0].payload, number(0x7fffffff) + number(0));
  connection.feed(frame(ping, ack, 0, told[1].payload));
  EXPECT_EQ(connection.tested.deadline(), connection.now + 20s);
  connection.now += 19s;
  EXPECT_FALSE(connection.tested.is_over());
  EXPECT_TRUE(connection.look().empty());
  connection.now += 1s;
  connection.look();
  EXPECT_TRUE(connection.tested.is_over());
}

TEST(native_time, connections_that_begin_together_do_not_end_together) {
  h2::limits bounds;
  bounds.body_timeout = bounds.write_timeout = 24h;  // no sweep between
  bounds.age_max = 100s;
  std::set<std::chrono::steady_clock::duration> ages;
  for (int i = 0; i < 10; ++i) {
    calls_harness connection(bounds);
    connection.begin();
    connection.feed(call_frames(1, "a", "/test/Wait"));
    ages.insert(connection.tested.deadline() - connection.now);
  }
  EXPECT_GT(ages.size(), 1U);
}

TEST(native_drain, a_peer_that_does_not_answer_is_not_waited_for) {
  calls_harness connection;
  connection.begin();
  connection.leaving = true;
  connection.look();
  EXPECT_FALSE(connection.tested.is_over());
  EXPECT_EQ(connection.tested.deadline(), connection.now + h2::goaway_patience);
  connection.now += h2::goaway_patience;
  EXPECT_EQ(goaway_code(connection.look()), 0);
  EXPECT_TRUE(connection.tested.is_over());
}

}  // namespace
}  // namespace bwos::server::rpc::test
