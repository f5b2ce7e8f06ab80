// SPDX-License-Identifier: Apache-2.0
// Where the calls of a batch run: here, on workers that are idle, or in the lane; and that those
// which were handed on are answered, cancelled and freed like all others.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "app/baselines.hpp"
#include "grpc/batch_turn.hpp"
#include "grpc/native_server.hpp"
#include "tests/grpc/calls_harness.hpp"
#include "tests/net/unlimited_memory.hpp"

namespace bwos::server::rpc::test {
namespace {

// batch_turn alone. A clock of so many ticks a millisecond makes every handler long, or brief.

constexpr metrics::ticks all_are_long = 1000;
constexpr metrics::ticks all_are_brief = std::numeric_limits<metrics::ticks>::max() / 1'000'000;

/// A method whose handlers take so much on average.
void set_mean(mean_time& method, metrics::ticks wanted) {
  for (int i = 0; i < 200; ++i) method.note(wanted, wanted);
}

bool for_a_thousand_ticks() {
  const metrics::ticks begun = metrics::now_ticks();
  while (metrics::now_ticks() - begun < 1000) {
  }
  return true;
}

TEST(batch_turn, a_first_call_is_run_here_whoever_is_idle) {
  list_executor workers;
  workers.somebody_is_idle = true;
  batch_turn turn(50us, all_are_long);
  const mean_time unknown;
  EXPECT_EQ(turn.place_of(unknown, false, workers), place::here);
}

TEST(batch_turn, the_rest_is_handed_on_once_the_slice_is_spent_while_somebody_is_idle) {
  list_executor workers;
  workers.somebody_is_idle = true;
  batch_turn turn(0us, all_are_long);
  mean_time method;
  EXPECT_TRUE(turn.run(method, for_a_thousand_ticks));
  set_mean(method, 1000);
  EXPECT_EQ(turn.place_of(method, false, workers), place::workers);
  workers.somebody_is_idle = false;  // what was begun is gone on with
  EXPECT_EQ(turn.place_of(method, true, workers), place::workers);
  turn.begin();
  EXPECT_EQ(turn.place_of(method, false, workers), place::here);
  EXPECT_FALSE(turn.run(method, [] { return !for_a_thousand_ticks(); }));
  EXPECT_EQ(turn.place_of(method, false, workers), place::here);  // nobody is idle
  workers.somebody_is_idle = true;
  EXPECT_EQ(turn.place_of(method, true, workers), place::here);  // nothing else is left
  EXPECT_EQ(turn.place_of(method, false, workers), place::workers);
}

TEST(batch_turn, brief_handlers_are_never_handed_on) {
  list_executor workers;
  workers.somebody_is_idle = true;
  batch_turn turn(1s, all_are_brief);
  mean_time method;
  for (int i = 0; i < 1000; ++i) {
    ASSERT_EQ(turn.place_of(method, false, workers), place::here);
    turn.run(method, [] { return true; });
  }
}

TEST(batch_turn, of_brief_handlers_few_are_timed_and_of_others_all) {
  const auto timed_of = [](metrics::ticks ticks_per_ms) {
    batch_turn turn(1s, ticks_per_ms);
    mean_time method;
    int timed = 0;
    for (unsigned i = 0; i < 10 * brief_handlers_per_look; ++i) {
      set_mean(method, 800);
      turn.run(method, [] { return true; });
      timed += method.get() != 800 ? 1 : 0;
    }
    return timed;
  };
  EXPECT_EQ(timed_of(all_are_brief), 10);
  EXPECT_EQ(timed_of(all_are_long), 10 * static_cast<int>(brief_handlers_per_look));
}

TEST(batch_turn, a_long_method_is_for_the_lane_and_none_is_without_a_threshold) {
  list_executor workers;
  batch_turn turn(50us, 1'000'000);
  batch_turn without(0us, 1'000'000);
  mean_time method;
  set_mean(method, 40'000);
  EXPECT_EQ(turn.place_of(method, true, workers), place::here);
  set_mean(method, 60'000);
  EXPECT_EQ(turn.place_of(method, true, workers), place::lane);
  EXPECT_EQ(without.place_of(method, true, workers), place::here);
}

// A peer's.

constexpr int calls = 8;
std::chrono::microseconds takes{200};  // what a handler of "/test/Take" does
int taken = 0;                         // how many have

/// More than a slice of a batch, and than a brief handler, on any machine.
task<rpc::status> take(rpc::context&, const helloworld::HelloRequest& request,
                       helloworld::HelloReply& reply) {
  const auto end = std::chrono::steady_clock::now() + takes;
  while (std::chrono::steady_clock::now() < end) {
  }
  ++taken;
  reply.set_message("took " + request.name());
  co_return rpc::status{};
}

std::string calls_of_take(int count = calls) {
  std::string bytes;
  for (int i = 0; i < count; ++i) {
    bytes += call_frames(static_cast<std::uint32_t>(2 * i + 1), std::to_string(i), "/test/Take");
  }
  return bytes;
}

struct batch_harness : calls_harness {
  explicit batch_harness(const call_limits& limits = {}, const h2::limits& http2 = {})
      : calls_harness(http2, limits) {
    methods().unary("/test/Take", &take);
    takes = 200us;
    taken = 0;
    begin();
    workers().somebody_is_idle = true;
  }
  [[nodiscard]] int answered() const {
    int count = 0;
    for (const auto& [stream, each] : answers_in(all)) count += each.ended ? 1 : 0;
    return count;
  }
  void expect_all_answered() const {
    for (int i = 0; i < calls; ++i) {
      EXPECT_EQ(answer_to(static_cast<std::uint32_t>(2 * i + 1)).body,
                message(named("took " + std::to_string(i))));
    }
  }
};

TEST(native_batch, what_is_left_of_a_long_batch_is_handed_on_and_answered_by_one_pull) {
  batch_harness connection;
  std::string bytes = calls_of_take();
  connection.feed(bytes);
  bytes.assign(bytes.size(), '#');  // it was read there
  // One begins here; two where reading them took a turn of its own, as on a slow machine.
  const int here = connection.answered();
  EXPECT_GE(here, 1);
  EXPECT_LE(here, 2);
  EXPECT_EQ(connection.workers().posted(), static_cast<unsigned>(calls - here));
  connection.run_posted();
  EXPECT_EQ(taken, calls);
  connection.tested.look(connection.now);
  byte_buffer output;
  EXPECT_FALSE(connection.tested.pull(output));
  connection.all.clear();
  connection.feed("");
  EXPECT_FALSE(connection.tested.has_running());
  EXPECT_EQ(connection.counted(metrics::grpc::ok), static_cast<unsigned>(calls));
}

TEST(native_batch, each_is_answered_with_its_own) {
  batch_harness connection;
  connection.feed(calls_of_take());
  connection.run_posted();
  connection.look();
  connection.expect_all_answered();
}

TEST(native_batch, while_nobody_is_idle_all_of_it_is_run_here) {
  batch_harness connection;
  connection.workers().somebody_is_idle = false;
  connection.feed(calls_of_take());
  EXPECT_EQ(connection.workers().posted(), 0U);
  connection.expect_all_answered();
}

TEST(native_batch, the_last_call_is_not_handed_on_alone) {
  batch_harness connection;
  connection.feed(calls_of_take(2));
  EXPECT_EQ(connection.workers().posted(), 0U);
  EXPECT_EQ(connection.answered(), 2);
}

TEST(native_batch, one_that_is_reset_before_its_turn_is_not_run) {
  batch_harness connection;
  connection.feed(calls_of_take());
  connection.feed(frame(rst_stream, none, 5, number(8)));
  connection.run_posted();
  connection.look();
  EXPECT_EQ(taken, calls - 1);
  EXPECT_FALSE(connection.answer_to(5).ended);
  EXPECT_EQ(connection.answered(), calls - 1);
  EXPECT_FALSE(connection.tested.has_running());
  EXPECT_EQ(connection.counted(metrics::grpc::cancelled), 1U);
}

TEST(native_batch, one_whose_deadline_passes_before_its_turn_is_answered_then) {
  batch_harness connection;
  connection.feed(calls_of_take(1) +
                  call_frames(3, "late", "/test/Take", {{"grpc-timeout", "1S"}}) +
                  call_frames(5, "x", "/test/Take"));
  connection.now += 1500ms;
  connection.look();
  EXPECT_EQ(connection.answer_to(3).field("grpc-status"), "4");
  connection.run_posted();
  connection.look();
  EXPECT_EQ(taken, 2);
  EXPECT_EQ(connection.answer_to(5).body, message(named("took x")));
}

TEST(native_batch, those_of_a_lost_connection_are_not_run) {
  batch_harness connection;
  connection.feed(calls_of_take());
  const int begun = taken;
  EXPECT_GT(connection.workers().posted(), 0U);
  connection.tested.lost();
  EXPECT_TRUE(connection.tested.has_running());
  connection.run_posted();
  EXPECT_EQ(taken, begun);
  connection.tested.bury();
  EXPECT_FALSE(connection.tested.has_running());
}

TEST(native_batch,
     those_that_the_workers_never_ran_go_with_them_before_their_connection_or_behind) {
  for (const bool before : {true, false}) {
    batch_harness connection;
    const std::string bytes = preface + frame(settings, none, 0, "") + calls_of_take();
    auto other = std::make_unique<h2::endpoint>(connection.of(), stream_waker{}, connection.now);
    other->feed(std::as_bytes(std::span(bytes)), connection.now);
    while (other->has_left()) other->look(connection.now);
    EXPECT_EQ(connection.workers().posted(), calls - 1U);
    if (before) connection.workers().run(continuation::disposition::discard);
    other.reset();
    if (!before) connection.workers().run(continuation::disposition::discard);
    EXPECT_EQ(taken, 1);  // a leak, or a second free, is the sanitizers' to find
  }
}

TEST(native_batch, handing_on_makes_no_call_refused) {
  batch_harness connection({}, {.handlers_max = 3});
  connection.feed(calls_of_take());
  EXPECT_EQ(connection.workers().posted(), 2U);  // the others found no room there
  connection.run_posted();
  connection.look();
  connection.expect_all_answered();
}

// A turn.

TEST(native_turn, once_its_slice_is_spent_what_is_answered_is_sent_and_the_rest_waits) {
  batch_harness connection;
  connection.workers().somebody_is_idle = false;
  connection.in_one_turn = true;
  takes = turn_slice;
  std::string bytes = calls_of_take();
  connection.feed(bytes);
  bytes.assign(bytes.size(), '#');  // what is left has its messages
  for (int i = 1; i < calls; ++i) {
    EXPECT_EQ(connection.answered(), i);
    EXPECT_EQ(taken, i);
    EXPECT_TRUE(connection.tested.has_left());
    EXPECT_EQ(connection.tested.deadline() > connection.now + 1s,
              true);  // its own turn is no delay
    connection.look();
  }
  EXPECT_FALSE(connection.tested.has_left());
  connection.expect_all_answered();
  EXPECT_GE(connection.counted(metrics::grpc::slices), calls - 1U);
}

TEST(native_turn, what_waits_for_the_next_one_may_be_reset_expire_or_be_lost) {
  batch_harness connection;
  connection.workers().somebody_is_idle = false;
  connection.in_one_turn = true;
  takes = turn_slice;
  connection.feed(calls_of_take(1) +
                  call_frames(3, "late", "/test/Take", {{"grpc-timeout", "1S"}}) +
                  call_frames(5, "x", "/test/Take") + call_frames(7, "y", "/test/Take") +
                  call_frames(9, "z", "/test/Take"));
  EXPECT_EQ(taken, 1);
  connection.feed(frame(rst_stream, none, 5, number(8)));  // a turn: "late" is run
  connection.look();                                       // 5 is passed over, 7 is run
  EXPECT_EQ(taken, 3);
  EXPECT_FALSE(connection.answer_to(5).ended);
  EXPECT_EQ(connection.answer_to(7).body, message(named("took y")));
  EXPECT_TRUE(connection.tested.has_left());
  connection.tested.lost();
  EXPECT_FALSE(connection.tested.has_left());
  EXPECT_EQ(taken, 3);
}

/// What the peer has sent meanwhile is not late: nobody has read it.
TEST(native_turn, while_calls_wait_for_theirs_no_header_and_no_message_is_late) {
  batch_harness connection;
  connection.workers().somebody_is_idle = false;
  connection.in_one_turn = true;
  takes = turn_slice;
  const std::string header = header_frame(101, request_header());
  const std::string rest = frame(data, end_stream, 101, message(named("x")));
  const std::string next = call_frames(107, "y");
  connection.feed(calls_of_take() + header + rest.substr(0, 12));
  const std::size_t half = 20;
  while (connection.tested.has_left()) {
    connection.now += 20s;
    connection.look();
  }
  connection.feed(rest.substr(12) + call_frames(103, "y", "/test/Take") +
                  call_frames(105, "z", "/test/Take") + next.substr(0, half));
  while (connection.tested.has_left()) {
    connection.now += 20s;
    connection.look();
  }
  connection.feed(next.substr(half));
  while (connection.tested.has_left()) connection.look();
  EXPECT_EQ(goaway_code(connection.all), -1);
  EXPECT_EQ(connection.answer_to(101).field("grpc-status"), "0");
  EXPECT_EQ(connection.answer_to(107).field("grpc-status"), "0");
}

int messages_read = 0;

/// Takes its time for each message.
task<rpc::status> chews(rpc::context&, rpc::reader<helloworld::HelloRequest>& requests,
                        rpc::writer<helloworld::HelloReply>& replies) {
  helloworld::HelloRequest request;
  helloworld::HelloReply reply;
  while (co_await requests.read(request)) {
    ++messages_read;
    const auto end = std::chrono::steady_clock::now() + takes;
    while (std::chrono::steady_clock::now() < end) {
    }
    reply.set_message(request.name());
    if (!co_await replies.write(reply)) break;
  }
  co_return rpc::status{};
}

/// Each message takes a turn.
struct chew_harness : batch_harness {
  chew_harness() {
    methods().both_streams("/test/Chew", &chews);
    in_one_turn = true;
    takes = turn_slice;
    messages_read = 0;
    for (int i = 0; i < 20; ++i) twenty += frame(data, none, 1, message(named(std::to_string(i))));
  }
  std::string twenty = header_frame(1, request_header("/test/Chew"));  // and so many messages
};

TEST(native_turn, a_stream_of_messages_does_not_outlast_it) {
  chew_harness connection;
  connection.feed(connection.twenty + frame(data, end_stream, 1, "") + call_frames(3, "other"));
  EXPECT_GE(messages_read, 1);
  EXPECT_LE(messages_read, 2);
  EXPECT_TRUE(connection.tested.has_left());
  int turns = 1;
  for (; connection.tested.has_left() && turns < 100; ++turns) {
    const int before = messages_read;
    connection.look();
    EXPECT_LE(messages_read, before + 2);
  }
  EXPECT_GE(turns, 10);
  EXPECT_LT(turns, 100);
  EXPECT_EQ(messages_read, 20);
  std::string expected;
  for (int i = 0; i < 20; ++i) expected += message(named(std::to_string(i)));
  EXPECT_EQ(connection.answer_to(1).body, expected);
  EXPECT_EQ(connection.answer_to(1).field("grpc-status"), "0");
  EXPECT_EQ(connection.answer_to(3).field("grpc-status"), "0");
}

TEST(native_turn, a_paused_stream_is_cancelled_like_any_other) {
  chew_harness connection;
  connection.feed(connection.twenty);
  connection.tested.lost();
  connection.run_posted();
  connection.tested.bury();
  EXPECT_FALSE(connection.tested.has_running());
  EXPECT_LE(messages_read, 3);
}

// The lane.

TEST(native_lane, a_method_that_takes_long_goes_there_and_leaves_it_when_it_has_become_short) {
  batch_harness connection({.lane_threshold = 50us});
  connection.workers().somebody_is_idle = false;
  std::uint32_t stream = 1;
  const auto is_handed_on = [&] {
    const int before = connection.workers().posted_long;
    connection.feed(call_frames(stream, "x", "/test/Take"));
    stream += 2;
    connection.run_posted();
    connection.look();
    EXPECT_TRUE(connection.answer_to(stream - 2).ended);
    return connection.workers().posted_long != before;
  };
  EXPECT_FALSE(is_handed_on());  // nothing is known of it
  int here = 1;
  while (here < 100 && !is_handed_on()) ++here;
  EXPECT_EQ(here, 3);  // 200 us, its cap, weigh an eighth each
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(is_handed_on());
  takes = 0us;
  int in_lane = 1;
  while (in_lane < 1000 && is_handed_on()) ++in_lane;
  EXPECT_LT(in_lane, 1000);
  EXPECT_FALSE(is_handed_on());
}

TEST(native_lane, calls_that_nobody_wants_any_more_are_not_taken_for_short_ones) {
  batch_harness connection({.lane_threshold = 50us});
  for (std::uint32_t i = 0; i < 5; ++i) {
    connection.feed(call_frames(2 * i + 1, "x", "/test/Take"));
  }
  const int before = connection.workers().posted_long;
  ASSERT_GT(before, 0);
  std::string resets;
  for (std::uint32_t i = 5; i < 100; ++i) {
    connection.feed(call_frames(2 * i + 1, "x", "/test/Take"));
    resets += frame(rst_stream, none, 2 * i + 1, number(8));
  }
  connection.feed(resets);
  connection.run_posted();
  connection.look();
  EXPECT_EQ(connection.workers().posted_long, before + 95);
  connection.feed(call_frames(201, "x", "/test/Take"));
  EXPECT_EQ(connection.workers().posted_long, before + 96);
}

TEST(native_lane, other_methods_are_run_here_meanwhile) {
  batch_harness connection({.lane_threshold = 50us});
  for (std::uint32_t i = 0; i < 5; ++i) {
    connection.feed(call_frames(2 * i + 1, "x", "/test/Take"));
  }
  ASSERT_GT(connection.workers().posted_long, 0);
  const std::size_t before = connection.workers().posted();
  connection.feed(call_frames(101, "x", "/test/Take") + call_frames(103, "x"));
  EXPECT_EQ(connection.workers().posted(), before + 1);
  EXPECT_FALSE(connection.answer_to(101).ended);
  EXPECT_TRUE(connection.answer_to(103).ended);
}

// Threads and a socket.

struct running_server {
  explicit running_server(const call_limits& calls) : limits(calls) {}
  ~running_server() { threads->stop(); }
  void start() { listener->start(connections, 100); }

  static config two_workers() {
    config made;
    made.workers = 2;
    return made;
  }

  const config settings = two_workers();
  const call_limits limits;
  const drain_state drain;
  metrics::registry registry{{.routes = 1, .statuses = status_count}};
  method_table methods;
  std::atomic<bool> leaving{false};
  const std::unique_ptr<runtime> threads = make_runtime(settings);
  const std::unique_ptr<port> listener = threads->listen("127.0.0.1:0", 100);
  const served_methods served{methods, limits};
  const h2::common of{threads->workers(),
                      drain,
                      registry,
                      settings.http2,
                      leaving,
                      server::test::unlimited_memory(),
                      &served};
  const h2::factory connections{of};
};

class client {
 public:
  explicit client(const std::string& address) : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    to.sin_port =
        htons(static_cast<std::uint16_t>(std::stoi(address.substr(address.rfind(':') + 1))));
    EXPECT_EQ(::connect(socket_, reinterpret_cast<sockaddr*>(&to), sizeof to), 0);
  }
  ~client() { ::close(socket_); }
  client(const client&) = delete;
  client& operator=(const client&) = delete;

  /// In one segment, unless it is larger than the socket's buffer.
  void send(const std::string& bytes) const {
    EXPECT_EQ(::send(socket_, bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
  }
  /// Until so many streams have ended.
  std::map<std::uint32_t, answer> read(std::size_t streams) {
    for (;;) {  // ends with the socket's end, at the latest
      auto found = answers_in(all_);
      std::size_t ended = 0;
      for (const auto& [stream, each] : found) ended += each.ended ? 1 : 0;
      std::array<char, 65536> buffer;
      if (ended >= streams) return found;
      const ssize_t got = ::recv(socket_, buffer.data(), buffer.size(), 0);
      if (got <= 0) return found;
      const auto fresh = reader_.read({buffer.data(), static_cast<std::size_t>(got)});
      all_.insert(all_.end(), fresh.begin(), fresh.end());
    }
  }

 private:
  const int socket_;
  frame_reader reader_;
  std::vector<read_frame> all_;
};

std::atomic<int> inside{0};
std::atomic<int> most{0};

/// Takes its time until two are inside, or that does not happen: the first of a batch, which runs
/// before anything of it is handed on, is named "0".
task<rpc::status> meets(rpc::context&, const helloworld::HelloRequest& request,
                        helloworld::HelloReply&) {
  const int now = ++inside;
  int seen = most;
  while (now > seen && !most.compare_exchange_weak(seen, now)) {
  }
  const auto patience = request.name() == "0" ? 20ms : 500ms;
  const auto end = std::chrono::steady_clock::now() + patience;
  while (most < 2 && std::chrono::steady_clock::now() < end) {
  }
  --inside;
  co_return rpc::status{};
}

std::string calls_of_meets(int count, std::uint32_t first_stream) {
  std::string bytes;
  for (int i = 0; i < count; ++i) {
    bytes += call_frames(first_stream + 2 * static_cast<std::uint32_t>(i), std::to_string(i),
                         "/test/Meet");
  }
  return bytes;
}

TEST(native_threads, two_calls_of_one_batch_run_at_once) {
  running_server server({});
  server.methods.unary("/test/Meet", &meets);
  server.start();
  client peer(server.listener->address());
  inside = most = 0;
  peer.send(preface + frame(settings, none, 0, "") + calls_of_meets(calls, 1));
  const auto answers = peer.read(calls);
  ASSERT_EQ(answers.size(), static_cast<std::size_t>(calls));
  for (const auto& [stream, each] : answers) EXPECT_EQ(each.field("grpc-status"), "0") << stream;
  EXPECT_EQ(most, 2);
}

/// Of all workers.
std::uint64_t lane_runs(const running_server& server) {
  std::uint64_t sum = 0;
  for (const auto& each : server.threads->workers_of_ours()->statistics().workers) {
    sum += each.lane_run;
  }
  return sum;
}

TEST(native_threads, long_calls_of_one_connection_run_in_the_lane_and_on_all_workers) {
  running_server server({.lane_threshold = 500us});
  server.methods.unary(
      "/test/Long",
      +[](rpc::context&, const helloworld::HelloRequest&,
          helloworld::HelloReply&) -> task<rpc::status> {
        const int now = ++inside;
        most = std::max(most.load(), now);
        std::this_thread::sleep_for(
            3ms);  // more than the lane's age, so that its cap does not hold
        --inside;
        co_return rpc::status{};
      });
  server.start();
  client peer(server.listener->address());
  peer.send(preface + frame(settings, none, 0, ""));
  for (std::uint32_t i = 0; i < 3; ++i) {  // until it is known to be long
    peer.send(call_frames(2 * i + 1, "x", "/test/Long"));
    peer.read(i + 1);
  }
  EXPECT_EQ(lane_runs(server), 0U);
  inside = most = 0;
  std::string bytes;
  for (std::uint32_t i = 3; i < 30; ++i) bytes += call_frames(2 * i + 1, "x", "/test/Long");
  peer.send(bytes);
  EXPECT_EQ(peer.read(30).size(), 30U);
  EXPECT_EQ(lane_runs(server), 27U);
  EXPECT_EQ(most, 2);
}

/// A mixture of all that may happen to a call that was handed on, for the race detector.
TEST(native_threads, calls_that_are_reset_late_or_left_alone_all_end) {
  static std::atomic<std::uint64_t> ran{0};
  for (const auto threshold : {0us, 20us}) {
    running_server server({.lane_threshold = threshold});
    server.methods.unary(
        "/test/Some",
        +[](rpc::context&, const helloworld::HelloRequest& request,
            helloworld::HelloReply& reply) -> task<rpc::status> {
          const auto end = std::chrono::steady_clock::now() + 30us;
          while (std::chrono::steady_clock::now() < end) {
          }
          ++ran;
          reply.set_message(request.name());
          co_return rpc::status{};
        });
    server.start();
    for (int round = 0; round < 20; ++round) {
      client peer(server.listener->address());
      peer.send(preface + frame(settings, none, 0, ""));
      for (std::uint32_t batch = 0; batch < 5; ++batch) {
        const std::uint32_t first = 200 * batch + 1;
        std::string bytes;
        for (std::uint32_t i = 0; i < 100; ++i) {
          const fields timeout = i % 10 == 3 ? fields{{"grpc-timeout", "500u"}} : fields{};
          bytes += call_frames(first + 2 * i, "x", "/test/Some", timeout);
        }
        peer.send(bytes);
        std::string resets;
        for (std::uint32_t i = 7; i < 100; i += 10) {
          resets += frame(rst_stream, none, first + 2 * i, number(8));
        }
        peer.send(resets);
        if (round % 4 == 3 && batch == 3) break;  // and goes
        const auto answers = peer.read(90 * (batch + 1));
        std::size_t wrong = 0;
        for (const auto& [stream, each] : answers) {
          const std::string status = each.ended ? each.field("grpc-status") : "0";
          wrong += status != "0" && status != "4" ? 1 : 0;
        }
        ASSERT_EQ(wrong, 0U);
      }
    }
    server.listener->close();
    const auto end = std::chrono::steady_clock::now() + 20s;
    while (server.listener->connections() != 0 && std::chrono::steady_clock::now() < end) {
      std::this_thread::sleep_for(1ms);
    }
    EXPECT_EQ(server.listener->connections(), 0U);
    const metrics::totals all = server.registry.total();
    const auto of = [&](metrics::grpc what) { return all.grpc[static_cast<std::size_t>(what)]; };
    EXPECT_EQ(of(metrics::grpc::started), of(metrics::grpc::ok) + of(metrics::grpc::cancelled));
  }
  EXPECT_GT(ran, 1000U);
}

}  // namespace
}  // namespace bwos::server::rpc::test
