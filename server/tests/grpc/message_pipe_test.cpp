// SPDX-License-Identifier: Apache-2.0
// Streams of messages by their bytes: answers, back-pressure both ways, and that a handler that
// waits learns of every end.
#include <gtest/gtest.h>
#include <malloc.h>

#include <algorithm>
#include <cstdlib>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "grpc/compression.hpp"
#include "tests/grpc/calls_harness.hpp"

namespace {
int allocations = 0;    // by `new`
long bytes_in_use = 0;  // likewise
long bytes_peak = 0;    // of those
}  // namespace

// Not inlined: g++ would take a `new` and the free() of its delete for a mismatch.
[[gnu::noinline]] void* operator new(std::size_t size) {
  ++allocations;
  void* const made = std::malloc(size);
  if (made == nullptr) throw std::bad_alloc();
  bytes_in_use += static_cast<long>(::malloc_usable_size(made));
  bytes_peak = std::max(bytes_peak, bytes_in_use);
  return made;
}
[[gnu::noinline]] void operator delete(void* what) noexcept {
  bytes_in_use -= static_cast<long>(::malloc_usable_size(what));
  std::free(what);
}
[[gnu::noinline]] void operator delete(void* what, std::size_t) noexcept {
  bytes_in_use -= static_cast<long>(::malloc_usable_size(what));
  std::free(what);
}

namespace bwos::server::rpc::test {
namespace {

using helloworld::HelloReply;
using helloworld::HelloRequest;

struct seen_by_handlers {
  int read = 0;
  int written = 0;
  int cancelled = 0;
  int ended = 0;
};
seen_by_handlers seen;

task<rpc::status> echoes(rpc::context& call, rpc::reader<HelloRequest>& requests,
                         rpc::writer<HelloReply>& replies) {
  HelloRequest request;
  HelloReply reply;
  while (co_await requests.read(request)) {
    ++seen.read;
    reply.set_message(request.name());
    if (!co_await replies.write(reply)) break;
    ++seen.written;
  }
  seen.cancelled += call.is_cancelled() ? 1 : 0;
  ++seen.ended;
  co_return rpc::status{};
}

/// 1 KiB messages, as many as its name says.
task<rpc::status> pours(rpc::context& call, HelloRequest& request,
                        rpc::writer<HelloReply>& replies) {
  HelloReply reply;
  reply.set_message(std::string(1024 - 5 - 3, 'x'));
  const int wanted = std::stoi(request.name());
  while (seen.written < wanted) {  // not with &&: g++ 12 awaits whatever the left side says
    if (!co_await replies.write(reply)) break;
    ++seen.written;
  }
  seen.cancelled += call.is_cancelled() ? 1 : 0;
  ++seen.ended;
  co_return rpc::status{};
}

/// Sleeps, then reads until it is told to sleep again.
task<rpc::status> sleeps(rpc::context& call, rpc::reader<HelloRequest>& requests,
                         HelloReply& reply) {
  HelloRequest request;
  do {
    co_await gate::instance().pass();
    if (!co_await requests.read(request)) break;
  } while (++seen.read < 3);
  while (co_await requests.read(request)) ++seen.read;
  seen.cancelled += call.is_cancelled() ? 1 : 0;
  ++seen.ended;
  reply.set_message(std::to_string(seen.read));
  co_return rpc::status{};
}

task<rpc::status> refuses_all(rpc::context& call, rpc::reader<HelloRequest>&,
                              rpc::writer<HelloReply>& replies) {
  call.add_initial_metadata("x-initial", "1");
  call.add_initial_metadata("x-initial-bin", std::string("\0\xff", 2));
  HelloReply reply;
  reply.set_message("one");
  const bool written = co_await replies.write(reply);
  EXPECT_TRUE(written);
  EXPECT_FALSE(call.add_initial_metadata("x-late", "1"));
  EXPECT_FALSE(call.add_trailing_metadata("grpc-status", "0"));
  EXPECT_FALSE(call.add_trailing_metadata("x-line", "a\nb"));
  call.add_trailing_metadata("x-trailing", "2");
  co_return rpc::status{rpc::code::not_found, "no"};
}

/// Reads all, and answers then.
task<rpc::status> answers_late(rpc::context&, rpc::reader<HelloRequest>& requests,
                               rpc::writer<HelloReply>& replies) {
  HelloRequest request;
  while (co_await requests.read(request)) {
  }
  const bool written = co_await replies.write({});
  EXPECT_FALSE(written);
  co_return rpc::status{};
}

/// As much as there is room for.
task<rpc::status> tells_much(rpc::context& call, HelloRequest&, rpc::writer<HelloReply>&) {
  const std::string value(1000, 'x');
  int initial = 0;
  while (call.add_initial_metadata("x-much", value)) ++initial;
  EXPECT_EQ(initial, sent_metadata_bytes_max / 1038);
  while (call.add_trailing_metadata("x-much", value)) --initial;
  EXPECT_EQ(initial, 0);
  EXPECT_FALSE(call.add_initial_metadata(status_details, "")) << "a status's, and so trailing";
  EXPECT_TRUE(call.add_trailing_metadata(status_details, "x"));
  co_return rpc::status{};
}

struct stream_harness : calls_harness {
  explicit stream_harness(const h2::limits& http2 = {}, const call_limits& calls = {},
                          std::size_t memory_max = memory_budget::unlimited)
      : calls_harness(http2, calls, 10'000, memory_max) {
    methods().both_streams("/test/Echo", &echoes);
    methods().server_stream("/test/Pour", &pours);
    methods().client_stream("/test/Sleep", &sleeps);
    methods().both_streams("/test/RefuseAll", &refuses_all);
    methods().both_streams("/test/AnswerLate", &answers_late);
    methods().server_stream("/test/TellMuch", &tells_much);
    seen = {};
  }
};

/// Messages of 256 KiB, as long as somebody wants them.
task<rpc::status> pours_much(rpc::context& call, HelloRequest&, rpc::writer<HelloReply>& replies) {
  HelloReply reply;
  reply.set_message(std::string(256 * 1024, 'x'));
  while (co_await replies.write(reply)) ++seen.written;
  seen.cancelled += call.is_cancelled() ? 1 : 0;
  ++seen.ended;
  co_return rpc::status{};
}

std::string open(std::uint32_t stream, const std::string& path, const fields& more = {}) {
  return header_frame(stream, request_header(path, more));
}

TEST(native_stream, nothing_is_written_after_a_message_that_cannot_be_read) {
  stream_harness connection;
  connection.begin();
  connection.feed(open(1, "/test/AnswerLate") +
                  frame(data, end_stream, 1, message(named("a")) + message("\x0a\x7f")));
  EXPECT_EQ(connection.answer_to(1).field("grpc-status"), "13");
  EXPECT_EQ(connection.answer_to(1).body, "");
}

TEST(native_stream, metadata_comes_in_a_header_of_its_own_and_is_bounded) {
  stream_harness connection;
  connection.begin();
  connection.feed(open(1, "/test/TellMuch") + frame(data, end_stream, 1, message("")));
  EXPECT_EQ(connection.answer_to(1).field("grpc-status"), "0");
  EXPECT_EQ(connection.answer_to(1).field("grpc-status-details-bin"), "eA");
  EXPECT_EQ(connection.answer_to(1).header_frames, 2);
  EXPECT_EQ(connection.answer_to(1).body, "");
}

TEST(native_stream, each_message_is_answered_as_it_comes) {
  stream_harness connection;
  connection.begin();
  EXPECT_TRUE(connection.feed(open(1, "/test/Echo")).empty());
  const auto first = connection.feed(frame(data, none, 1, message(named("a"))));
  ASSERT_EQ(first.size(), 2U);
  EXPECT_EQ(first[0].flags, end_headers);
  EXPECT_EQ(first[1].payload, message(named("a")));
  EXPECT_EQ(first[1].flags, none);
  const auto second =
      connection.feed(frame(data, none, 1, message(named("b")) + message(named("c"))));
  ASSERT_EQ(second.size(), 1U);  // one frame for both
  EXPECT_EQ(second[0].payload, message(named("b")) + message(named("c")));
  const auto last = connection.feed(frame(data, end_stream, 1, ""));
  ASSERT_EQ(last.size(), 1U);
  EXPECT_EQ(last[0].flags, end_headers | end_stream);
  EXPECT_EQ(last[0].header, (fields{{"grpc-status", "0"}}));
  EXPECT_FALSE(connection.tested.has_running());
  EXPECT_EQ(connection.counted(metrics::grpc::ok), 1U);
}

/// Of its own: the next message of a stream, or of its connection, need not be as large.
task<rpc::status> echoes_and_forgets(rpc::context&, rpc::reader<HelloRequest>& requests,
                                     rpc::writer<HelloReply>& replies) {
  for (;;) {  // ends: with the requests
    HelloRequest request;
    if (!co_await requests.read(request)) break;
    HelloReply reply;
    reply.set_message(request.name());
    if (!co_await replies.write(reply)) break;
  }
  co_return rpc::status{};
}

TEST(native_stream, who_is_idle_keeps_nothing_of_its_largest_message) {
  stream_harness connection;
  connection.methods().both_streams("/test/EchoAndForget", &echoes_and_forgets);
  connection.begin(std::string("\0\4\x7f\xff\xff\xff", 6));
  connection.feed(frame(window_update, none, 0, number(0x7fff0000)));
  const auto send = [&](std::uint32_t stream, std::size_t size) {
    const std::string bytes = message(named(std::string(size, 'x')));
    for (std::size_t at = 0; at < bytes.size(); at += 16'384) {
      connection.feed(frame(data, none, stream, bytes.substr(at, 16'384)));
    }
    connection.all.clear();
    connection.all.shrink_to_fit();
  };
  connection.feed(open(1, "/test/EchoAndForget"));
  send(1, 10);
  const long before = bytes_in_use;
  send(1, 1'500'000);
  EXPECT_LT(bytes_in_use - before, 50'000);
  connection.feed(frame(data, end_stream, 1, ""));
  connection.all.clear();
  connection.all.shrink_to_fit();
  EXPECT_LT(bytes_in_use - before, 50'000);
}

/// Fields of two bytes each that protobuf does not know: it would make a hundred bytes of each.
TEST(native_stream, what_would_become_too_large_in_memory_is_not_read) {
  stream_harness connection;
  connection.begin();
  std::uint32_t stream = 1;
  for (const std::string& field : {std::string("\x7b\x7c"), std::string("\x7a\0", 2)}) {
    std::string fields;
    for (int i = 0; i < 2'000'000; ++i) fields += field;
    std::string small;
    deflate(encoding::gzip, fields, small);
    std::string().swap(fields);
    const long before = bytes_in_use;
    bytes_peak = before;
    connection.feed(header_frame(stream, request_header(hello_path, {{"grpc-encoding", "gzip"}})) +
                    frame(data, end_stream, stream, message(small, 1)));
    EXPECT_LT(bytes_peak - before, 30'000'000);
    EXPECT_EQ(connection.answer_to(stream).field("grpc-status"), "8");
    stream += 2;
  }
}

/// As much as the window lets in, of which the handler has read the first half and more.
TEST(native_stream, what_was_read_of_many_messages_takes_no_memory) {
  stream_harness connection;
  connection.begin();
  connection.feed(open(1, "/test/Sleep"));
  const std::string one = message(named(std::string(1000, 'x')));
  std::string many;
  for (int i = 0; i < 900; ++i) many += one;
  const long before = bytes_in_use;
  for (std::size_t at = 0; at < many.size(); at += 16'384) {
    connection.feed(frame(data, none, 1, many.substr(at, 16'384)));
  }
  EXPECT_GT(bytes_in_use - before, 900'000);
  EXPECT_LT(bytes_in_use - before, 2'500'000);
  for (int i = 0; i < 3; ++i) gate::instance().open();  // reads three, then all
  connection.look();
  EXPECT_LT(bytes_in_use - before, 50'000);
}

TEST(native_stream, without_a_message_the_answer_is_trailers_only) {
  stream_harness connection;
  connection.begin();
  connection.feed(open(1, "/test/Echo") + frame(data, end_stream, 1, ""));
  EXPECT_EQ(connection.answer_to(1).header_frames, 1);
  EXPECT_EQ(connection.answer_to(1).field("grpc-status"), "0");
}

TEST(native_stream, metadata_and_a_status_go_round_the_messages_and_an_early_end_is_told) {
  stream_harness connection;
  connection.begin();
  connection.feed(open(1, "/test/RefuseAll") + frame(data, none, 1, message(named("a"))));
  const answer got = connection.answer_to(1);
  EXPECT_EQ(got.field("x-initial"), "1");
  EXPECT_EQ(got.field("x-initial-bin"), "AP8");
  EXPECT_EQ(got.field("x-late"), "(none)");
  EXPECT_EQ(got.field("x-trailing"), "2");
  EXPECT_EQ(got.field("grpc-status"), "5");
  EXPECT_EQ(got.field("grpc-message"), "no");
  EXPECT_EQ(got.body, message(named("one")));
  EXPECT_EQ(got.reset, 0);
}

TEST(native_stream, the_same_bytes_cut_anywhere_give_the_same_answers) {
  const std::string big(3000, 'y');
  const std::string bytes =
      open(1, "/test/Echo") + open(3, "/test/Sleep") +
      frame(data, none, 1, message(named("a")) + message(named(big))) +
      frame(data, end_stream, 3, message(named("x")) + message("")) +
      frame(data, end_stream, 1, message("") + message(named("b"))) + open(5, "/test/Echo") +
      frame(data, end_stream, 5, std::string(2, '\0')) + open(7, "/test/Echo") +
      frame(data, end_stream, 7, message("\x0a\x7f") + message("")) +
      call_frames(9, "3", "/test/Pour");
  for (std::size_t cut = 1; cut <= bytes.size(); ++cut) {
    stream_harness connection;
    connection.begin();
    connection.feed(bytes.substr(0, cut));
    connection.feed(bytes.substr(cut));
    gate::instance().open();
    connection.look();
    while (gate::instance().waiting() > 0) gate::instance().open();
    connection.look();
    const std::string echoed =
        message(named("a")) + message(named(big)) + message("") + message(named("b"));
    ASSERT_EQ(connection.answer_to(1).body, echoed) << cut;
    ASSERT_EQ(connection.answer_to(1).field("grpc-status"), "0") << cut;
    ASSERT_EQ(connection.answer_to(3).field("grpc-status"), "0") << cut;
    ASSERT_EQ(connection.answer_to(5).field("grpc-status"), "13") << cut;
    ASSERT_EQ(connection.answer_to(7).field("grpc-status"), "13") << cut;
    ASSERT_EQ(connection.answer_to(7).field("grpc-message"), "Unable to parse request") << cut;
    ASSERT_EQ(connection.answer_to(9).field("grpc-status"), "0") << cut;
    connection.run_posted();
    connection.look();
    ASSERT_FALSE(connection.tested.has_running()) << cut;
  }
}

TEST(native_stream, a_peer_that_reads_nothing_stops_the_writer_and_lets_it_go_on) {
  stream_harness connection;
  connection.begin();
  connection.feed(call_frames(1, "1000", "/test/Pour"));
  constexpr int window = 65535;
  EXPECT_EQ(connection.answer_to(1).body.size(), static_cast<std::size_t>(window));
  EXPECT_LE(seen.written * 1024, window + 64 * 1024);
  EXPECT_GE(seen.written * 1024, window + 64 * 1024 - 2048);
  connection.look();
  const int before = seen.written;
  connection.feed(frame(window_update, none, 0, number(10'240)));
  EXPECT_EQ(seen.written, before);  // not its window
  connection.feed(frame(window_update, none, 1, number(10'240)));
  EXPECT_EQ(seen.written, before + 10);
  connection.feed(frame(window_update, none, 0, number(1 << 20)) +
                  frame(window_update, none, 1, number(1 << 20)));
  EXPECT_EQ(seen.written, 1000);
  EXPECT_EQ(connection.answer_to(1).body.size(), 1000U * 1024);
  EXPECT_EQ(connection.answer_to(1).field("grpc-status"), "0");
}

TEST(native_stream, a_handler_that_sleeps_stops_the_peer_and_lets_it_go_on) {
  stream_harness connection;
  connection.begin();
  connection.feed(open(1, "/test/Sleep"));
  const std::string one = message(named(std::string(300'000 - 9, 'x')));
  ASSERT_EQ(one.size(), 300'000U);
  std::int64_t sent = 0;
  const auto send_all = [&] {
    for (;;) {
      const std::int64_t room =
          std::min({connection.window(0, sent), connection.window(1, sent), std::int64_t{10'000}});
      if (room <= 0 || sent > 20'000'000) return;
      std::string piece;
      while (piece.size() < static_cast<std::size_t>(room)) {
        const std::size_t at = (static_cast<std::size_t>(sent) + piece.size()) % one.size();
        piece += one.substr(at, static_cast<std::size_t>(room) - piece.size());
      }
      sent += room;
      connection.feed(frame(data, none, 1, piece));
    }
  };
  send_all();
  EXPECT_EQ(sent, h2::stream_window);
  gate::instance().open();  // it reads one
  EXPECT_EQ(seen.read, 1);
  connection.look();
  send_all();
  EXPECT_EQ(sent, h2::stream_window);  // less than half of the window: nghttp2 tells of no less
  gate::instance().open();
  EXPECT_EQ(seen.read, 2);
  connection.look();
  send_all();
  EXPECT_EQ(sent, h2::stream_window + 600'000);
  gate::instance().open();  // it reads all that there is
  connection.look();
  for (int i = 0; i < 100 && sent < 6'000'000; ++i) {
    send_all();
    connection.look();
  }
  EXPECT_GE(sent, 6'000'000);
  connection.feed(frame(rst_stream, none, 1, number(8)));
  connection.run_posted();
  EXPECT_EQ(seen.cancelled, 1);
}

TEST(native_stream, a_peer_that_takes_nothing_of_what_is_written_is_not_waited_for_for_ever) {
  h2::limits bounds;
  bounds.write_timeout = 4s;
  stream_harness connection(bounds);
  connection.begin();
  connection.feed(call_frames(1, "1000", "/test/Pour"));
  for (int i = 0; i < 20; ++i) {  // a peer that takes a little, now and then, is
    connection.now += 1s;
    if (i % 2 == 0) {
      connection.feed(frame(window_update, none, 0, number(2048)) +
                      frame(window_update, none, 1, number(2048)));
    }
    connection.look();
  }
  EXPECT_EQ(connection.answer_to(1).reset, -1);
  EXPECT_EQ(seen.ended, 0);
  for (int i = 0; i < 7; ++i) {
    connection.now += 1s;
    connection.look();
  }
  EXPECT_EQ(connection.answer_to(1).reset, 8);
  connection.run_posted();
  EXPECT_EQ(seen.ended, 1);
  EXPECT_EQ(seen.cancelled, 1);
  connection.look();
  EXPECT_FALSE(connection.tested.has_running());
  EXPECT_EQ(connection.counted(metrics::grpc::cancelled), 1U);
  connection.feed(call_frames(3, "next"));  // the others go on
  EXPECT_TRUE(connection.answer_to(3).ended || connection.answer_to(3).status == "200");
}

TEST(native_stream, a_peer_that_takes_a_byte_now_and_then_is_not_waited_for_for_ever_either) {
  for (const bool connection_too : {false, true}) {
    SCOPED_TRACE(connection_too);
    h2::limits bounds;
    bounds.write_timeout = 4s;
    stream_harness connection(bounds);
    connection.begin(connection_too ? number(4, 2) + number(0x7fffffff) : "");
    connection.feed(call_frames(1, "1000", "/test/Pour"));
    const auto begun = connection.now;
    while (connection.answer_to(1).reset == -1) {
      ASSERT_LT(connection.now - begun, 10s);
      connection.now += 100ms;
      connection.feed(connection_too ? frame(window_update, none, 0, number(1))
                                     : frame(window_update, none, 0, number(100)) +
                                           frame(window_update, none, 1, number(1)));
    }
    EXPECT_GE(connection.now - begun, 4s);
    EXPECT_EQ(connection.answer_to(1).reset, 8);
    connection.run_posted();
    EXPECT_EQ(seen.cancelled, 1);
    connection.look();
    EXPECT_FALSE(connection.tested.has_running());
  }
}

/// Messages fewer than the least rate's bytes, to a peer that takes each as it comes.
TEST(native_stream, of_few_bytes_is_not_too_slow_for_its_peer) {
  h2::limits bounds;
  bounds.write_timeout = 4s;
  stream_harness connection(bounds);
  connection.begin(number(4, 2) + number(0));
  connection.feed(open(1, "/test/Echo"));
  std::size_t echoed = 0;
  for (int i = 0; i < 60; ++i) {
    connection.feed(frame(data, none, 1, message(named("x"))));
    connection.now += 1s;
    connection.look();  // while it waits for its window
    connection.feed(frame(window_update, none, 1, number(8)));
    connection.run_posted();
    connection.look();
    ASSERT_EQ(connection.answer_to(1).reset, -1) << i;
    ASSERT_GT(connection.answer_to(1).body.size(), echoed) << i;
    echoed = connection.answer_to(1).body.size();
  }
}

TEST(native_stream, a_message_larger_than_the_window_comes_through_to_one_that_reads) {
  stream_harness connection;
  connection.begin(number(4, 2) + number(0x7fffffff));
  connection.feed(frame(window_update, none, 0, number(0x7fff0000)) + open(1, "/test/Echo"));
  const std::string big = message(named(std::string(3'000'000, 'x')));
  std::int64_t sent = 0;
  for (int i = 0; i < 3; ++i) {
    for (std::size_t at = 0; at < big.size();) {
      const std::int64_t room =
          std::min({connection.window(0, sent), connection.window(1, sent), std::int64_t{16'384}});
      ASSERT_GT(room, 0) << at;
      const std::string piece = big.substr(at, static_cast<std::size_t>(room));
      at += piece.size();
      sent += static_cast<std::int64_t>(piece.size());
      connection.feed(frame(data, none, 1, piece));
    }
  }
  EXPECT_EQ(seen.read, 3);
  EXPECT_EQ(connection.answer_to(1).body, big + big + big);
}

TEST(native_stream, what_is_ready_is_read_and_written_without_an_allocation) {
  stream_harness connection;
  connection.begin(number(4, 2) + number(0x7fffffff));
  connection.feed(open(1, "/test/Echo"));
  std::string some;
  for (int i = 0; i < 100; ++i) some += message(named("short"));
  const std::string bytes = frame(data, none, 1, some);
  const auto allocations_of_one = [&] {
    byte_buffer output;
    output.append(std::string(10'000, ' '));
    output.clear(20'000);
    const int before = allocations;
    connection.tested.feed(std::as_bytes(std::span(bytes)), connection.now);
    for (;;) {  // ends: in as many turns as a slow machine needs
      while (connection.tested.pull(output)) {
      }
      if (!connection.tested.has_left()) break;
      connection.tested.look(connection.now);
    }
    return allocations - before;
  };
  for (int i = 0; i < 5; ++i) (void)allocations_of_one();  // buffers take their size
  EXPECT_EQ(seen.read, 500);
  // Frames are nghttp2's, by malloc; a hundred messages in and out make none of ours but those of
  // the window's updates and the like.
  EXPECT_LE(allocations_of_one(), 2);
  EXPECT_EQ(seen.written, 600);
}

// Ends.

TEST(native_stream_end, a_reset_reaches_one_that_reads_and_one_that_writes) {
  stream_harness connection;
  connection.begin();
  connection.feed(open(1, "/test/Echo") + call_frames(3, "1000", "/test/Pour"));
  connection.feed(frame(rst_stream, none, 1, number(8)) + frame(rst_stream, none, 3, number(8)));
  EXPECT_EQ(seen.ended, 0);  // they go on by the workers
  connection.run_posted();
  EXPECT_EQ(seen.ended, 2);
  EXPECT_EQ(seen.cancelled, 2);
  connection.look();
  EXPECT_FALSE(connection.tested.has_running());
  EXPECT_EQ(connection.counted(metrics::grpc::cancelled), 2U);
}

TEST(native_stream_end, a_deadline_reaches_both_and_its_status_the_peer) {
  stream_harness connection;
  connection.begin();
  const fields soon{{"grpc-timeout", "1S"}};
  connection.feed(open(1, "/test/Echo", soon) + call_frames(3, "1000", "/test/Pour", soon));
  connection.now += 1s;
  connection.look();
  connection.run_posted();
  EXPECT_EQ(seen.cancelled, 2);
  connection.look();
  EXPECT_FALSE(connection.tested.has_running());
  EXPECT_EQ(connection.answer_to(1).field("grpc-status"), "4");
  // Behind what its window had let go, without the rest.
  EXPECT_EQ(connection.answer_to(3).field("grpc-status"), "4");
  EXPECT_EQ(connection.answer_to(3).body.size(), 65535U);
  EXPECT_TRUE(connection.answer_to(3).ended);
}

TEST(native_stream_end, a_lost_connection_reaches_both) {
  stream_harness connection;
  connection.begin();
  connection.feed(open(1, "/test/Echo") + call_frames(3, "1000", "/test/Pour"));
  connection.tested.lost();
  connection.run_posted();
  EXPECT_EQ(seen.cancelled, 2);
  connection.tested.bury();
  EXPECT_FALSE(connection.tested.has_running());
}

TEST(native_stream_end, an_upload_that_breaks_off_inside_a_message_reaches_its_reader) {
  stream_harness connection;
  connection.begin();
  connection.feed(open(1, "/test/Echo") + frame(data, none, 1, message(named("a")) + '\0'));
  connection.now += 31s;
  connection.look();
  connection.now += 8s;
  connection.look();
  EXPECT_EQ(connection.answer_to(1).ended, false);  // its length has not begun to count
  connection.feed(frame(data, none, 1, number(10)));
  connection.now += 31s;
  connection.look();
  EXPECT_EQ(connection.answer_to(1).field("grpc-status"), "4");
  connection.run_posted();
  EXPECT_EQ(seen.ended, 1);
}

TEST(native_stream_end, a_peer_goes_with_handlers_that_nobody_will_go_on_with) {
  stream_harness connection;
  {
    h2::endpoint tested(connection.of(), {}, connection.now);
    const std::string bytes = preface + frame(settings, none, 0, "") + open(1, "/test/Echo") +
                              call_frames(3, "1000", "/test/Pour");
    tested.feed(std::as_bytes(std::span(bytes)), connection.now);
    byte_buffer output;
    while (tested.pull(output)) output.clear(0);
  }
  EXPECT_EQ(seen.ended, 0);  // ASan would tell of a leak
}

// What they keep.

std::int64_t charged(const stream_harness& connection, memory what) {
  return connection.memory.total().bytes[static_cast<std::size_t>(what)];
}

TEST(native_stream_memory, what_a_handler_waits_to_write_is_charged_until_it_has_ended) {
  constexpr std::size_t mib = 1024 * 1024;
  stream_harness connection({}, {}, 2 * mib);
  connection.methods().server_stream("/test/PourMuch", &pours_much);
  connection.begin(std::string("\0\4\0\0\0\0", 6));  // no window: nothing is sent
  const auto pour = [&](std::uint32_t stream) {
    connection.feed(call_frames(stream, "a", "/test/PourMuch"));
  };
  pour(1);
  EXPECT_EQ(seen.written, 1);
  EXPECT_EQ(charged(connection, memory::output), 256 * 1024);    // in the session
  EXPECT_EQ(charged(connection, memory::messages), 256 * 1024);  // in the handler
  pour(3);
  pour(5);
  EXPECT_EQ(charged(connection, memory::messages), 3 * 256 * 1024);
  EXPECT_FALSE(connection.answer_to(5).ended);
  pour(7);  // its first message has room, its second has not
  EXPECT_EQ(seen.ended, 1);
  connection.feed(frame(window_update, none, 7, number(300'000)) +
                  frame(window_update, none, 0, number(300'000)));
  EXPECT_EQ(connection.answer_to(7).body.size(), 256U * 1024 + 5 + 4);
  EXPECT_EQ(connection.answer_to(7).field("grpc-status"), "8");
  EXPECT_EQ(charged(connection, memory::messages), 3 * 256 * 1024);
  for (const std::uint32_t stream : {1U, 3U, 5U}) {
    connection.feed(frame(rst_stream, none, stream, number(8)));
  }
  connection.run_posted();
  connection.look();
  EXPECT_EQ(seen.cancelled, 3);
  EXPECT_EQ(charged(connection, memory::messages), 0);
  EXPECT_EQ(charged(connection, memory::output), 0);
}

TEST(native_stream_memory, a_reply_for_which_there_is_no_memory_is_refused) {
  constexpr std::size_t mib = 1024 * 1024;
  stream_harness connection({}, {}, 2 * mib);
  connection.begin(std::string("\0\4\0\0\0\0", 6));
  connection.feed(call_frames(1, "3000000", "/test/Large"));
  EXPECT_EQ(connection.answer_to(1).field("grpc-status"), "8");
  EXPECT_EQ(charged(connection, memory::output), 0);
  connection.feed(call_frames(3, "1000000", "/test/Large"));
  EXPECT_FALSE(connection.answer_to(3).ended);  // it waits for a window
  EXPECT_GT(charged(connection, memory::output), 900'000);
}

}  // namespace
}  // namespace bwos::server::rpc::test
