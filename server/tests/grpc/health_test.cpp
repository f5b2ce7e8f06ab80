// SPDX-License-Identifier: Apache-2.0
// Calls that last (a health watch, an open reflection stream) by their bytes: what ends them, and
// that they end behind the others when the server leaves.
#include <gtest/gtest.h>
#include <health.pb.h>

#include <string>

#include "grpc/health.hpp"
#include "tests/grpc/calls_harness.hpp"

namespace bwos::server::rpc::test {
namespace {

const std::string serving = message("\x08\x01");
const std::string not_serving = message("\x08\x02");
const std::string reflection = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo";

struct health_harness : calls_harness {
  health_harness() { add_health(methods(), draining); }

  void watch(std::uint32_t stream) {
    feed(call_frames(stream, "", "/grpc.health.v1.Health/Watch"));
  }
  void drain() {
    draining.begin();
    run_posted();
    look();
  }
  /// GOAWAY, and the peer has it.
  void leave() {
    leaving = true;
    for (const read_frame& each : look()) {
      if (each.type == ping) feed(frame(ping, ack, 0, each.payload));
    }
  }
};

TEST(native_health, a_watch_that_nothing_happens_to_is_left_alone) {
  health_harness connection;
  connection.begin();
  connection.watch(1);
  EXPECT_EQ(connection.answer_to(1).body, serving);
  for (int i = 0; i < 100; ++i) {
    connection.now += 1s;
    connection.look();
  }
  EXPECT_EQ(connection.answer_to(1).body, serving);
  EXPECT_FALSE(connection.answer_to(1).ended);
  EXPECT_TRUE(connection.tested.has_running());
}

TEST(native_health, a_drain_is_told_once) {
  health_harness connection;
  connection.begin();
  connection.watch(1);
  connection.drain();
  EXPECT_EQ(connection.answer_to(1).body, serving + not_serving);
  connection.drain();
  EXPECT_EQ(connection.answer_to(1).body, serving + not_serving);
  EXPECT_FALSE(connection.answer_to(1).ended);
}

TEST(native_health, a_reset_ends_a_watch_before_the_drain_and_after) {
  health_harness connection;
  connection.begin();
  connection.watch(1);
  connection.watch(3);
  connection.feed(frame(rst_stream, none, 1, number(8)));
  connection.run_posted();
  connection.look();
  EXPECT_EQ(connection.counted(metrics::grpc::cancelled), 1U);
  connection.drain();
  EXPECT_EQ(connection.answer_to(1).body, serving);
  EXPECT_EQ(connection.answer_to(3).body, serving + not_serving);
  connection.feed(frame(rst_stream, none, 3, number(8)));
  connection.run_posted();
  connection.look();
  EXPECT_EQ(connection.counted(metrics::grpc::cancelled), 2U);
  EXPECT_FALSE(connection.tested.has_running());
}

TEST(native_health, a_lost_connection_ends_a_watch_that_is_being_told) {
  health_harness connection;
  connection.begin();
  connection.watch(1);
  connection.watch(3);
  connection.draining.begin();  // both are to go on
  connection.tested.lost();
  connection.run_posted();
  connection.tested.bury();
  EXPECT_FALSE(connection.tested.has_running());
  connection.draining.begin();  // nobody listens
}

TEST(native_health, a_server_that_leaves_ends_what_lasts_behind_the_others) {
  health_harness connection;
  connection.begin();
  connection.watch(1);
  connection.feed(header_frame(3, request_header(reflection)));
  connection.feed(call_frames(5, "a", "/test/Wait"));
  connection.drain();
  connection.leave();
  EXPECT_FALSE(connection.answer_to(1).ended);
  EXPECT_FALSE(connection.answer_to(3).ended);
  // Open as it is, it answers.
  connection.feed(frame(data, none, 3, message("\x3a\x01*")));
  EXPECT_NE(connection.answer_to(3).body.find("helloworld.Greeter"), std::string::npos);
  gate::instance().open();
  connection.look();
  EXPECT_EQ(connection.answer_to(5).body, message(named("waited a")));
  for (const std::uint32_t stream : {1U, 3U}) {
    EXPECT_TRUE(connection.answer_to(stream).ended) << stream;
    EXPECT_EQ(connection.answer_to(stream).field("grpc-status"), "14") << stream;
  }
  EXPECT_EQ(connection.answer_to(1).body, serving + not_serving);
  EXPECT_TRUE(connection.tested.is_over());
  connection.run_posted();
  connection.look();
  EXPECT_FALSE(connection.tested.has_running());
}

TEST(native_health, a_watch_ends_behind_what_it_is_being_told) {
  health_harness connection;
  connection.begin();
  connection.watch(1);
  connection.draining.begin();  // its handler is to go on, on a worker that is busy
  connection.leave();
  connection.look();
  EXPECT_FALSE(connection.answer_to(1).ended);
  connection.run_posted();
  connection.look();
  EXPECT_EQ(connection.answer_to(1).body, serving + not_serving);
  EXPECT_EQ(connection.answer_to(1).field("grpc-status"), "14");
}

TEST(native_health, what_lasts_alone_ends_when_the_peer_has_the_goaway) {
  health_harness connection;
  connection.begin();
  connection.watch(1);
  connection.leaving = true;
  connection.look();
  EXPECT_FALSE(connection.answer_to(1).ended);
  connection.now += h2::goaway_patience;  // it does not say so
  connection.look();
  EXPECT_EQ(connection.answer_to(1).field("grpc-status"), "14");
  EXPECT_TRUE(connection.tested.is_over());
}

}  // namespace
}  // namespace bwos::server::rpc::test
