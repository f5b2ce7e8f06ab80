// SPDX-License-Identifier: Apache-2.0
// What the requests of one connection may keep in memory: how it is counted, and that the bytes of
// a peer are charged for what they become, until its handlers have ended.
#include "grpc/receive_budget.hpp"

#include <gtest/gtest.h>
#include <health.pb.h>

#include <array>
#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "grpc/compression.hpp"
#include "grpc/health.hpp"
#include "tests/grpc/calls_harness.hpp"
#include "tests/net/unlimited_memory.hpp"

namespace bwos::server::rpc::test {
namespace {

constexpr std::size_t mib = std::size_t{1} << 20;

TEST(receive_budget, takes_up_to_its_bound_and_gives_back) {
  receive_budget budget(100, server::test::unlimited_account());
  EXPECT_TRUE(budget.take(60));
  EXPECT_FALSE(budget.take(41));
  EXPECT_EQ(budget.taken(), 60U);
  EXPECT_TRUE(budget.take(40));
  EXPECT_FALSE(budget.take(1));
  budget.give_back(40);
  EXPECT_TRUE(budget.take(1));
  EXPECT_EQ(budget.taken(), 61U);
}

TEST(receive_budget, of_threads_that_take_and_give_back_none_takes_beyond_it) {
  receive_budget budget(10, server::test::unlimited_account());
  std::atomic<int> holding{0};
  std::atomic<int> most{0};
  std::array<std::thread, 4> threads;
  for (std::thread& each : threads) {
    each = std::thread([&] {
      for (int i = 0; i < 20'000; ++i) {
        if (!budget.take(3)) continue;
        const int now = holding.fetch_add(3) + 3;
        for (int seen = most.load(); seen < now && !most.compare_exchange_weak(seen, now);) {
        }
        holding.fetch_sub(3);
        budget.give_back(3);
      }
    });
  }
  for (std::thread& each : threads) each.join();
  EXPECT_LE(most.load(), 9);
  EXPECT_GE(most.load(), 3);
  EXPECT_EQ(budget.taken(), 0U);
}

TEST(request_charge, grows_shrinks_and_is_free_for_little) {
  receive_budget budget(10'000, server::test::unlimited_account());
  request_charge charge;
  EXPECT_TRUE(charge.set(uncharged_bytes_max, budget));
  EXPECT_EQ(budget.taken(), 0U);
  EXPECT_TRUE(charge.set(6000, budget));
  EXPECT_FALSE(charge.set(10'001, budget));
  EXPECT_EQ(budget.taken(), 6000U);
  EXPECT_TRUE(charge.set(2000, budget));
  EXPECT_EQ(budget.taken(), 2000U);
  charge.give_back(budget);
  EXPECT_EQ(budget.taken(), 0U);
}

TEST(request_advance, is_needed_by_messages_or_streams_of_half_a_window) {
  EXPECT_FALSE(request_advance::is_needed(h2::stream_window / 2 - 1, 0));
  EXPECT_TRUE(request_advance::is_needed(h2::stream_window / 2, 0));
  EXPECT_FALSE(request_advance::is_needed(1, h2::connection_window / 2 - 1));
  EXPECT_TRUE(request_advance::is_needed(1, h2::connection_window / 2));
}

TEST(request_advance, is_paid_back_by_what_is_read_first) {
  receive_budget budget(1000, server::test::unlimited_account());
  request_advance advance;
  EXPECT_EQ(advance.pay_back(70, budget), 70U);  // there is none
  EXPECT_TRUE(advance.add(600, budget));
  EXPECT_FALSE(advance.add(401, budget));
  EXPECT_TRUE(advance.add(400, budget));
  EXPECT_EQ(budget.taken(), 1000U);
  EXPECT_EQ(advance.pay_back(700, budget), 0U);
  EXPECT_EQ(budget.taken(), 300U);
  EXPECT_EQ(advance.pay_back(350, budget), 50U);
  EXPECT_EQ(budget.taken(), 0U);
}

TEST(request_advance, is_given_back_whole_and_once) {
  receive_budget budget(1000, server::test::unlimited_account());
  ASSERT_TRUE(budget.take(1));
  request_advance advance;
  EXPECT_TRUE(advance.add(999, budget));
  advance.give_back(budget);
  advance.give_back(budget);
  EXPECT_EQ(budget.taken(), 1U);
}

std::string gzipped_frames(std::uint32_t stream, const std::string& what, int last_flags) {
  std::string small;
  deflate(encoding::gzip, what, small);
  const std::string bytes = message(small, 1);
  std::string frames;
  for (std::size_t at = 0; at < bytes.size(); at += 16'384) {
    const bool last = at + 16'384 >= bytes.size();
    frames += frame(data, last ? last_flags : none, stream, bytes.substr(at, 16'384));
  }
  return frames;
}

std::string gzipped_call(std::uint32_t stream, const std::string& path, const std::string& what) {
  return header_frame(stream, request_header(path, {{"grpc-encoding", "gzip"}})) +
         gzipped_frames(stream, what, end_stream);
}

h2::limits four_mib() {
  h2::limits bounds;
  bounds.request_bytes_max = 4 * mib;
  return bounds;
}

TEST(native_budget, what_handlers_keep_is_charged_expanded_until_they_have_ended) {
  calls_harness connection(four_mib());
  connection.begin();
  const std::string bomb = named(std::string(mib, 'x'));
  for (const std::uint32_t stream : {1U, 3U, 5U, 7U}) {
    connection.feed(gzipped_call(stream, "/test/Wait", bomb));
  }
  EXPECT_EQ(gate::instance().waiting(), 3U);  // each is a little more than a quarter
  EXPECT_EQ(connection.answer_to(7).field("grpc-status"), "8");
  EXPECT_EQ(
      connection.answer_to(7).field("grpc-message"),
      "the requests of this connection (--h2-request-bytes-max), or of all (--memory-max), take "
      "too much memory");
  connection.feed(frame(rst_stream, none, 1, number(8)));
  connection.feed(gzipped_call(9, "/test/Wait", bomb));  // the first one's handler goes on
  EXPECT_EQ(connection.answer_to(9).field("grpc-status"), "8");
  connection.feed(call_frames(11, "small"));
  EXPECT_EQ(connection.answer_to(11).field("grpc-status"), "0");
  gate::instance().open();
  connection.look();
  EXPECT_FALSE(connection.answer_to(3).body.empty());
  for (const std::uint32_t stream : {13U, 15U, 17U}) {
    connection.feed(gzipped_call(stream, "/test/Wait", bomb));
  }
  EXPECT_EQ(gate::instance().waiting(), 3U);
}

TEST(native_budget, what_comes_as_it_is_is_charged_too) {
  calls_harness connection(four_mib());
  connection.begin();
  const std::string large = message(named(std::string(mib - 100, 'x')));
  for (std::uint32_t i = 0; i < 6; ++i) {
    const std::uint32_t stream = 2 * i + 1;
    std::string frames = header_frame(stream, request_header("/test/Wait"));
    for (std::size_t at = 0; at < large.size(); at += 16'384) {
      const bool last = at + 16'384 >= large.size();
      frames += frame(data, last ? end_stream : none, stream, large.substr(at, 16'384));
    }
    connection.feed(frames);
  }
  EXPECT_GE(gate::instance().waiting(), 3U);
  EXPECT_LE(gate::instance().waiting(), 4U);
  const answer last = connection.answer_to(11);
  EXPECT_TRUE(last.reset == 7 || last.field("grpc-status") == "8");  // while it came, or behind it
}

TEST(native_budget, calls_end_where_the_server_has_no_memory_for_them) {
  constexpr std::size_t all = 16 * mib;
  calls_harness connection({}, {}, 10'000, all);
  connection.begin();
  connection.memory.take_anyway(memory::bodies, 13 * mib);  // more than three quarters
  std::string frames = header_frame(1, request_header("/test/Wait"));
  const std::string large = message(named(std::string(100'000, 'x')));
  connection.feed(frames + frame(data, none, 1, large.substr(0, 16'000)));
  EXPECT_EQ(connection.answer_to(1).field("grpc-status"), "8");
  connection.feed(call_frames(3, "small"));
  EXPECT_EQ(connection.answer_to(3).field("grpc-status"), "0");
  connection.memory.take_anyway(memory::bodies, 3 * mib);
  connection.feed(header_frame(5, request_header("/test/Wait")) +
                  frame(data, none, 5, message(named(std::string(60'000, 'x'))).substr(0, 16'000)));
  // No more than what a thread may charge before it is summed fits.
  for (std::uint32_t stream = 7; stream < 47; stream += 2) {
    connection.feed(
        header_frame(stream, request_header("/test/Wait")) +
        frame(data, none, stream, message(named(std::string(60'000, 'x'))).substr(0, 16'000)));
  }
  EXPECT_EQ(connection.answer_to(45).field("grpc-status"), "8");
  connection.memory.give_back(memory::bodies, 16 * mib);
  connection.feed(call_frames(47, "small"));
  EXPECT_EQ(connection.answer_to(47).field("grpc-status"), "0");
}

/// Two bytes each on the wire, in memory eight times as much (UnknownFieldSet).
TEST(native_budget, what_protobuf_makes_of_a_message_is_what_is_charged) {
  calls_harness connection(four_mib());
  connection.begin();
  std::string fields;
  for (int i = 0; i < 100'000; ++i) fields += "\x78\x01";
  for (std::uint32_t i = 0; i < 6; ++i) {
    connection.feed(gzipped_call(2 * i + 1, "/test/Wait", fields));
  }
  EXPECT_LE(gate::instance().waiting(), 3U);
  EXPECT_GE(gate::instance().waiting(), 1U);
  EXPECT_EQ(connection.answer_to(11).field("grpc-status"), "8");
}

TEST(native_budget, a_ratio_bounds_what_a_message_becomes) {
  calls_harness connection({}, {.inflate_ratio_max = 100});
  connection.begin();
  connection.feed(gzipped_call(1, hello_path, named(std::string(100'000, 'x'))) +
                  gzipped_call(3, hello_path, named("hardly smaller")));
  EXPECT_EQ(connection.answer_to(1).field("grpc-status"), "8");
  EXPECT_EQ(connection.answer_to(1).field("grpc-message"),
            "message decompresses to more than 100 times its size");
  EXPECT_EQ(connection.answer_to(3).field("grpc-status"), "0");
}

task<rpc::status> keeps(rpc::context&, rpc::reader<helloworld::HelloRequest>& requests,
                        rpc::writer<helloworld::HelloReply>& replies) {
  helloworld::HelloRequest request;
  helloworld::HelloReply reply;
  while (co_await requests.read(request)) {
    reply.set_message(std::to_string(request.name().size()));
    if (!co_await replies.write(reply)) break;
  }
  co_return rpc::status{};
}

TEST(native_budget, a_streams_message_is_charged_until_its_handler_has_another) {
  calls_harness connection(four_mib());
  connection.methods().both_streams("/test/Keep", &keeps);
  connection.begin();
  const std::string bomb = named(std::string(mib, 'x'));
  for (const std::uint32_t stream : {1U, 3U, 5U, 7U}) {
    connection.feed(
        header_frame(stream, request_header("/test/Keep", {{"grpc-encoding", "gzip"}})));
    connection.feed(gzipped_frames(stream, bomb, none));
  }
  EXPECT_EQ(connection.answer_to(5).body, message(named(std::to_string(mib))));
  EXPECT_FALSE(connection.answer_to(5).ended);
  EXPECT_EQ(connection.answer_to(7).field("grpc-status"), "8");
  connection.feed(frame(data, end_stream, 1, ""));
  EXPECT_EQ(connection.answer_to(1).field("grpc-status"), "0");
  connection.feed(header_frame(9, request_header("/test/Keep", {{"grpc-encoding", "gzip"}})));
  connection.feed(gzipped_frames(9, bomb, none));
  EXPECT_EQ(connection.answer_to(9).body, message(named(std::to_string(mib))));
}

std::size_t most_kept = 0;

/// Keeps as many bytes as the names say, together.
task<rpc::status> remembers(rpc::context& call, rpc::reader<helloworld::HelloRequest>& requests,
                            rpc::writer<helloworld::HelloReply>& replies) {
  helloworld::HelloRequest request;
  std::size_t kept = 0;
  while (co_await requests.read(request)) {
    kept += std::stoul(request.name());
    if (!call.keep(kept)) co_return rpc::status{rpc::code::resource_exhausted, "too much"};
    most_kept = kept;
    helloworld::HelloReply reply;
    if (!co_await replies.write(reply)) break;
  }
  co_return rpc::status{};
}

TEST(native_budget, what_a_handler_says_that_it_keeps_counts_until_it_has_ended) {
  calls_harness connection(four_mib());
  connection.methods().both_streams("/test/Remember", &remembers);
  connection.begin();
  const auto messages = [&] {
    return connection.memory.total().bytes[static_cast<std::size_t>(memory::messages)];
  };
  most_kept = 0;
  connection.feed(header_frame(1, request_header("/test/Remember")) +
                  frame(data, none, 1, message(named("3000000"))));
  EXPECT_EQ(most_kept, 3'000'000U);
  EXPECT_EQ(messages(), 3'000'000);
  connection.feed(header_frame(3, request_header("/test/Remember")) +
                  frame(data, none, 3, message(named("1000000")) + message(named("1000000"))));
  EXPECT_EQ(connection.answer_to(3).field("grpc-status"), "8");
  EXPECT_EQ(messages(), 3'000'000);
  connection.feed(frame(data, end_stream, 1, ""));
  EXPECT_EQ(connection.answer_to(1).field("grpc-status"), "0");
  EXPECT_EQ(messages(), 0);
}

TEST(native_budget, few_bytes_of_many_fields_are_charged_for_what_they_become) {
  calls_harness connection;
  connection.methods().both_streams("/test/Keep", &keeps);
  connection.begin();
  std::string fields;
  for (int i = 0; i < 100; ++i) fields += std::string("\x7a\0", 2);
  connection.feed(header_frame(1, request_header("/test/Keep")) +
                  frame(data, none, 1, message(fields)));
  const auto kept = connection.memory.total().bytes[static_cast<std::size_t>(memory::messages)];
  EXPECT_GE(kept, 6000);  // 100 strings of 48 bytes, and a list of 16 for each
  EXPECT_LE(kept, 20'000);
}

TEST(native_budget, a_streams_message_that_expands_beyond_its_limit_is_told_as_a_unary_ones) {
  calls_harness connection({}, {.message_bytes_max = 1000});
  connection.methods().both_streams("/test/Keep", &keeps);
  connection.begin();
  connection.feed(header_frame(1, request_header("/test/Keep", {{"grpc-encoding", "gzip"}})));
  connection.feed(gzipped_frames(1, named(std::string(10'000, 'x')), none));
  EXPECT_EQ(connection.answer_to(1).field("grpc-status"), "8");
}

TEST(native_budget, a_method_may_bound_its_requests) {
  calls_harness connection;
  connection.methods().unary("/test/Little", &wait, {.request_bytes_max = 100});
  connection.begin();
  connection.feed(call_frames(1, std::string(99, 'x'), "/test/Little") +
                  gzipped_call(3, "/test/Little", named(std::string(10'000, 'x'))) +
                  call_frames(5, std::string(98, 'x'), "/test/Little"));
  EXPECT_EQ(connection.answer_to(1).field("grpc-status"), "8");
  EXPECT_EQ(connection.answer_to(3).field("grpc-status"), "8");
  EXPECT_EQ(gate::instance().waiting(), 1U);
}

TEST(native_budget, a_method_may_bound_its_calls_on_a_connection) {
  calls_harness connection;
  connection.methods().both_streams("/test/Keep", &keeps, {.calls_max = 2});
  connection.begin();
  for (const std::uint32_t stream : {1U, 3U, 5U}) {
    connection.feed(header_frame(stream, request_header("/test/Keep")));
  }
  EXPECT_FALSE(connection.answer_to(3).ended);
  EXPECT_EQ(connection.answer_to(5).field("grpc-status"), "8");
  EXPECT_EQ(connection.answer_to(5).field("grpc-message"),
            "too many calls of this method on one connection");
  connection.feed(call_frames(7, "other"));
  EXPECT_EQ(connection.answer_to(7).field("grpc-status"), "0");
  connection.feed(frame(rst_stream, none, 1, number(8)));
  connection.run_posted();  // its handler, which ends
  connection.look();
  connection.feed(header_frame(9, request_header("/test/Keep")));
  EXPECT_FALSE(connection.answer_to(9).ended);
}

TEST(native_budget, health_and_reflection_take_names_and_few_streams) {
  calls_harness connection;
  add_health(connection.methods(), connection.draining);
  connection.begin();
  const std::string reflection = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo";
  const std::string large = named(std::string(rpc::name_request_bytes_max, 'x'));
  connection.feed(gzipped_call(1, reflection, large) +
                  gzipped_call(3, "/grpc.health.v1.Health/Watch", large));
  EXPECT_EQ(connection.answer_to(1).field("grpc-status"), "8");
  EXPECT_EQ(connection.answer_to(3).field("grpc-status"), "8");
  std::uint32_t stream = 5;
  for (std::size_t i = 0; i < rpc::waiting_calls_max; ++i, stream += 2) {
    connection.feed(header_frame(stream, request_header(reflection)));
    ASSERT_FALSE(connection.answer_to(stream).ended);
  }
  connection.feed(header_frame(stream, request_header(reflection)));
  EXPECT_EQ(connection.answer_to(stream).field("grpc-status"), "8");
}

}  // namespace
}  // namespace bwos::server::rpc::test
