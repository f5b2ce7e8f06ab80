// SPDX-License-Identifier: Apache-2.0
// What every reactor promises where something runs out: time, descriptors, buffers, the pool.
#pragma once

#include <sys/resource.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <memory>
#include <optional>

#include "io/stream/address.hpp"
#include "reactor_fixture.hpp"

namespace bwos::test {

/// Milliseconds from `start`, in the deadlines' resolution.
inline auto since(steady::time_point start) {
  return std::chrono::ceil<std::chrono::milliseconds>(steady::now() - start);
}

/// Far above what a deadline may be late on a busy machine, far below what it would be if it were
/// lost.
inline constexpr auto late = 2s;

TEST_P(reactor_contract, ends_a_receive_at_its_deadline_and_not_before) {
  test_server server(settings(), [](stream peer) -> task<void> {
    const auto start = steady::now();
    peer.timeout(50ms);
    const received got = co_await peer.receive();
    const auto took = since(start);
    EXPECT_EQ(got.error, std::errc::timed_out);
    EXPECT_GE(took, 50ms);
    EXPECT_LT(took, 50ms + late);
    const received again = co_await peer.receive();
    EXPECT_EQ(again.error, std::errc::timed_out);
    peer.timeout(10s);  // set anew
    const received bytes = co_await peer.receive();
    EXPECT_EQ(bytes.bytes.size(), 1U);
  });
  std::deque<tcp_client> clients;
  for (int i = 0; i < 20; ++i) clients.emplace_back(server.address);
  ASSERT_TRUE(eventually([&] { return server.accepting.connections() == 20; }));
  std::this_thread::sleep_for(100ms);
  for (tcp_client& each : clients) ASSERT_TRUE(each.send("x"));
  for (tcp_client& each : clients) EXPECT_EQ(each.receive_end(), 0);
}

/// A worker in a long handler looks at its sockets only after their deadlines.
TEST_P(reactor_contract, bytes_that_came_in_time_are_not_late) {
  options alone = settings();
  alone.workers = 1;
  alone.reactor_group = 1;
  std::atomic<bool> stalled{false};
  std::atomic<int> timed_out{0};
  test_server server(alone, [&](stream peer) -> task<void> {
    for (;;) {  // ends with the peer
      peer.timeout(500ms);
      const received got = co_await peer.receive();
      if (got.error == std::errc::timed_out) ++timed_out;
      if (got.error || got.end()) co_return;
      if (got.bytes.front() == std::byte{'s'}) {
        stalled = true;
        std::this_thread::sleep_for(800ms);
      }
      static_cast<void>(co_await peer.send(bytes_of("!")));
    }
  });
  std::deque<tcp_client> clients;
  for (int i = 0; i < 5; ++i) clients.emplace_back(server.address);
  ASSERT_TRUE(eventually([&] { return server.accepting.connections() == 5; }));
  ASSERT_TRUE(clients.front().send("s"));
  ASSERT_TRUE(eventually([&] { return stalled.load(); }));
  for (std::size_t i = 1; i < clients.size(); ++i) ASSERT_TRUE(clients[i].send("?"));
  for (tcp_client& each : clients) EXPECT_EQ(each.receive(1), "!");
  EXPECT_EQ(timed_out, 0);
  ASSERT_TRUE(eventually([&] { return timed_out == 5; }));
}

TEST_P(reactor_contract, ends_a_send_at_its_deadline) {
  std::atomic<int> expired{0};
  test_server server(settings(), [&](stream peer) -> task<void> {
    const std::string text = pattern(16 << 20);  // more than the sockets hold
    peer.timeout(50ms);
    const sent done = co_await peer.send(bytes_of(text));
    expired += done.error == std::errc::timed_out && done.bytes < text.size();
  });
  tcp_client client(server.address);
  EXPECT_TRUE(eventually([&] { return expired == 1; }));
}

TEST_P(reactor_contract, moves_a_deadline_both_ways) {
  test_server server(settings(), [](stream peer) -> task<void> {
    peer.timeout(60s);
    static_cast<void>(co_await peer.receive());
    const auto start = steady::now();
    peer.timeout(30ms);  // earlier
    EXPECT_EQ((co_await peer.receive()).error, std::errc::timed_out);
    EXPECT_GE(since(start), 30ms);
    EXPECT_LT(since(start), 30ms + late);
    const auto again = steady::now();
    peer.timeout(20ms);
    peer.timeout(120ms);  // later
    EXPECT_EQ((co_await peer.receive()).error, std::errc::timed_out);
    EXPECT_GE(since(again), 120ms);
    EXPECT_LT(since(again), 120ms + late);
    peer.timeout(20ms);
    peer.no_deadline();
    EXPECT_EQ((co_await peer.receive()).bytes.size(), 1U);
  });
  tcp_client client(server.address);
  ASSERT_TRUE(client.send("x"));
  std::this_thread::sleep_for(300ms);
  ASSERT_TRUE(client.send("x"));
  EXPECT_EQ(client.receive_end(), 0);
}

TEST_P(reactor_contract, times_out_a_connection_that_changes_workers_at_every_request) {
  std::atomic<int> changes{0};
  std::atomic<bool> timed_out{false};
  std::unique_ptr<test_server> server;
  server = std::make_unique<test_server>(settings(), [&](stream peer) -> task<void> {
    mover other(server->workers);
    auto last = steady::now();
    for (;;) {  // ends by the deadline
      last = steady::now();
      peer.timeout(200ms);
      const received got = co_await peer.receive();
      if (got.error) {
        timed_out = got.error == std::errc::timed_out;
        break;
      }
      if (got.end()) co_return;
      const unsigned before = here();
      co_await other.move();
      changes += here() != before;
      static_cast<void>(co_await peer.send(bytes_of("!")));
    }
    EXPECT_GE(since(last), 200ms);
    EXPECT_LT(since(last), 200ms + late);
  });
  tcp_client client(server->address);
  for (int i = 0; i < 50; ++i) {
    ASSERT_TRUE(client.send("?"));
    ASSERT_EQ(client.receive(1), "!");
  }
  EXPECT_EQ(client.receive_end(), 0);
  server->finish();
  EXPECT_TRUE(timed_out);
  EXPECT_GT(changes, 25);
}

/// Leaves this process `count` descriptors to open, until it goes out of scope.
class scarce_descriptors {
 public:
  explicit scarce_descriptors(std::size_t count) {
    ::getrlimit(RLIMIT_NOFILE, &before_);
    const rlimit tight{.rlim_cur = 200, .rlim_max = before_.rlim_max};
    ::setrlimit(RLIMIT_NOFILE, &tight);
    for (int fd = ::dup(0); fd >= 0; fd = ::dup(0)) taken_.push_back(fd);
    while (count-- > 0 && !taken_.empty()) give();
  }
  ~scarce_descriptors() {
    while (!taken_.empty()) give();
    ::setrlimit(RLIMIT_NOFILE, &before_);
  }
  scarce_descriptors(const scarce_descriptors&) = delete;
  scarce_descriptors& operator=(const scarce_descriptors&) = delete;

 private:
  void give() {
    ::close(taken_.back());
    taken_.pop_back();
  }
  rlimit before_{};
  std::vector<int> taken_;
};

inline std::chrono::milliseconds processor_time() {
  rusage used{};
  ::getrusage(RUSAGE_SELF, &used);
  const auto of = [](const timeval& time) {
    return std::chrono::milliseconds(time.tv_sec * 1000 + time.tv_usec / 1000);
  };
  return of(used.ru_utime) + of(used.ru_stime);
}

TEST_P(reactor_contract, pauses_accepting_without_descriptors_and_goes_on_when_one_is_free) {
  test_server server(settings(), echo);
  std::deque<tcp_client> clients(12);
  std::this_thread::sleep_for(10ms);  // workers have opened what they need
  {
    const scarce_descriptors few(4);
    for (tcp_client& each : clients) {
      each.connect(server.address);
      ASSERT_TRUE(each.send("x"));
    }
    ASSERT_TRUE(eventually([&] { return server.accepting.accepted() >= 4; }));
    const auto before = processor_time();
    std::this_thread::sleep_for(500ms);
    EXPECT_LT(processor_time() - before, 250ms) << "it spins";
    EXPECT_LT(server.accepting.accepted(), 12U);
    for (tcp_client& each : clients) {  // one's end is the next one's beginning
      ASSERT_EQ(each.receive(1), "x");
      each.close();
    }
  }
  server.finish();
  EXPECT_EQ(server.accepting.accepted(), 12U);
}

/// This process's descriptor of the socket that listens there; -1: none.
inline int listening_at(const std::string& address) {
  for (int fd = 0; fd < 1000; ++fd) {
    int listens = 0;
    socklen_t size = sizeof listens;
    if (::getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) != 0 || listens == 0) continue;
    sockaddr_in bound{};
    socklen_t room = sizeof bound;
    ::getsockname(fd, reinterpret_cast<sockaddr*>(&bound), &room);
    const std::string port = std::to_string(ntohs(bound.sin_port));
    if (address.ends_with(std::string(":").append(port))) return fd;
  }
  return -1;
}

/// As a system call filter or a firewall may have it; here the socket has been shut down.
TEST_P(reactor_contract, neither_spins_nor_hangs_where_every_accept_fails) {
  test_server server(settings(), echo);
  tcp_client before_that(server.address);
  ASSERT_TRUE(before_that.send("x"));
  ASSERT_EQ(before_that.receive(1), "x");
  ASSERT_EQ(::shutdown(listening_at(server.address), SHUT_RDWR), 0);
  const auto before = processor_time();
  std::this_thread::sleep_for(500ms);
  EXPECT_LT(processor_time() - before, 250ms) << "it spins";
  ASSERT_TRUE(before_that.send("y"));
  EXPECT_EQ(before_that.receive(1), "y");
  before_that.close();
  server.finish();
}

TEST_P(reactor_contract, lets_a_handler_tell_those_above_the_limit_and_closes_those_above_that) {
  const auto tell = [](stream peer) -> task<void> {
    static_cast<void>(co_await peer.send(bytes_of("no")));
    peer.shutdown_send();
    for (;;) {  // ends with the peer
      const received got = co_await peer.receive();
      if (got.error || got.end()) co_return;
    }
  };
  test_server server(settings(), echo, 1, tell, 2);
  tcp_client inside(server.address);
  ASSERT_TRUE(inside.send("x"));
  ASSERT_EQ(inside.receive(1), "x");
  std::deque<tcp_client> told;
  for (int i = 0; i < 2; ++i) {
    told.emplace_back(server.address);
    ASSERT_TRUE(told.back().send(pattern(100'000)));  // unread, it would reset the connection
    EXPECT_EQ(told.back().receive(3), "no");
  }
  for (int i = 0; i < 10; ++i) EXPECT_LE(tcp_client(server.address).receive_end(), 0);
  EXPECT_EQ(server.accepting.connections(), 1U);
  EXPECT_EQ(server.accepting.accepted(), 1U);
  EXPECT_EQ(server.accepting.refused(), 12U);

  told.clear();  // their places come back, and the one inside
  EXPECT_TRUE(eventually([&] { return tcp_client(server.address).receive(3) == "no"; }));
  inside.close();
  EXPECT_TRUE(eventually([&] {
    tcp_client again(server.address);
    return again.send("y") && again.receive(1) == "y";
  }));
}

/// Sends back what it receives. Says that it has been idle for so many seconds as the last byte is
/// beyond '0', or that it is not: '-'. Leaves when its place is wanted; with `stays` only then when
/// its peer does.
task<void> idle_echo(stream peer, bool stays) {
  char last = '-';
  for (;;) {  // ends with the peer
    if (last == '-') {
      peer.timeout(60s);
    } else {
      peer.idle(steady::now() - std::chrono::seconds(last - '0'), steady::now() + 60s);
    }
    const received got = co_await peer.receive();
    if (got.error == std::errc::connection_aborted && stays) continue;
    if (got.error || got.end()) co_return;
    last = static_cast<char>(got.bytes.back());
    const std::vector<std::byte> kept(got.bytes.begin(), got.bytes.end());
    static_cast<void>(co_await peer.send(kept));
  }
}

TEST_P(reactor_contract, ends_those_that_are_idle_and_no_others) {
  test_server server(settings(), [](stream peer) { return idle_echo(std::move(peer), false); }, 10);
  listener other(server.workers, "127.0.0.1:0", 10);
  other.start([](stream peer) { return idle_echo(std::move(peer), false); }, 10);
  std::deque<tcp_client> peers;
  const auto join = [&](const std::string& to, std::string_view how) {
    tcp_client& made = peers.emplace_back(to);
    EXPECT_TRUE(made.send(how));
    EXPECT_EQ(made.receive(1), how);
  };
  for (const char* how : {"-", "1", "0", "9"}) join(server.address, how);
  join(other.address(), "9");
  EXPECT_TRUE(eventually([&] {
    const pool_statistics now = server.workers.statistics();
    return now.parked == now.workers.size();
  }));
  server.accepting.end_idle_connections();
  for (const std::size_t idle : {1U, 3U}) EXPECT_EQ(peers[idle].receive_end(), 0) << idle;
  EXPECT_EQ(server.accepting.made_room(), 2U);
  EXPECT_EQ(other.made_room(), 0U);
  for (const std::size_t left : {0U, 2U, 4U}) {
    ASSERT_TRUE(peers[left].send("-"));
    EXPECT_EQ(peers[left].receive(1), "-") << left;
  }
}

TEST_P(reactor_contract, makes_room_by_those_that_have_been_idle_longest) {
  test_server server(settings(), [](stream peer) { return idle_echo(std::move(peer), false); }, 4);
  std::deque<tcp_client> peers;
  const auto join = [&](std::string_view how) {
    tcp_client& made = peers.emplace_back(server.address);
    EXPECT_TRUE(made.send(how));
    EXPECT_EQ(made.receive(1), how);
  };
  for (const char* how : {"3", "9", "&", "5"}) join(how);  // '&' lies before '0'
  // Each has said how long it has been idle, and waits: nobody runs any more.
  EXPECT_TRUE(eventually([&] {
    const pool_statistics now = server.workers.statistics();
    return now.parked == now.workers.size();
  }));
  for (const std::size_t longest : {1U, 3U, 0U}) {
    join("-");
    EXPECT_EQ(peers[longest].receive_end(), 0) << longest;
  }
  EXPECT_LE(tcp_client(server.address).receive_end(), 0);  // nobody has been idle for long
  EXPECT_EQ(server.accepting.made_room(), 3U);
  EXPECT_EQ(server.accepting.accepted(), 7U);
  EXPECT_EQ(server.accepting.refused(), 1U);
  for (const std::size_t left : {2U, 4U, 5U, 6U}) {
    ASSERT_TRUE(peers[left].send("x"));
    EXPECT_EQ(peers[left].receive(1), "x") << left;
  }
}

TEST_P(reactor_contract, lets_few_in_beyond_the_limit_while_those_asked_to_leave_stay) {
  test_server server(settings(), [](stream peer) { return idle_echo(std::move(peer), true); }, 40);
  std::deque<tcp_client> peers;
  for (int i = 0; i < 40; ++i) {
    tcp_client& made = peers.emplace_back(server.address);
    ASSERT_TRUE(made.send("9"));
    ASSERT_EQ(made.receive(1), "9");
  }
  EXPECT_TRUE(eventually([&] {
    const pool_statistics now = server.workers.statistics();
    return now.parked == now.workers.size();
  }));
  for (int i = 0; i < 60; ++i) peers.emplace_back(server.address);
  const listener& in = server.accepting;
  EXPECT_TRUE(eventually([&] { return in.accepted() + in.refused() == 100; }));
  EXPECT_GT(in.accepted(), 40U);
  EXPECT_LE(in.accepted(), 40 + listener::leaving_max);
  EXPECT_EQ(in.made_room(), in.accepted() - 40);
}

TEST_P(reactor_contract, an_inherited_socket_goes_on_listening_when_its_listener_closes) {
  const int held = bind_and_listen("127.0.0.1:0", 100);
  const std::string address = local_address(held);
  std::optional<tcp_client> late;
  for (int round = 0; round < 3; ++round) {
    pool workers(settings());
    listener accepting(workers, inherited_socket{::dup(held)});
    EXPECT_EQ(accepting.address(), address);
    accepting.start(echo, 10);
    if (late) {  // came when nobody accepted
      EXPECT_EQ(late->receive(1), "l");
      late.reset();
    }
    tcp_client inside(address);
    ASSERT_TRUE(inside.send("a"));
    ASSERT_EQ(inside.receive(1), "a");
    accepting.close();
    ASSERT_TRUE(eventually([&] { return accepting.closed(); }));
    late.emplace(address);
    ASSERT_TRUE(late->send("l"));
    ASSERT_TRUE(inside.send("b"));
    EXPECT_EQ(inside.receive(1), "b");
    inside.close();
    workers.join();
    EXPECT_EQ(accepting.accepted(), round == 0 ? 1U : 2U);
  }
  ::close(held);
}

TEST_P(reactor_contract, loses_nothing_without_buffers_and_with_every_second_run_stolen) {
  for (const unsigned buffers : {2U, 8U}) {
    options scarce = settings();
    scarce.ring_buffers = buffers;
    scarce.receive_bytes = scarce.ring_buffer_bytes = 1024;
    std::unique_ptr<test_server> server;
    server = std::make_unique<test_server>(scarce, [&](stream peer) -> task<void> {
      mover other(server->workers);
      std::vector<std::byte> kept;
      for (bool second = false;; second = !second) {  // ends with the peer
        if (second) co_await other.move();
        const received got = co_await peer.receive();
        if (got.error || got.end()) co_return;
        kept.assign(got.bytes.begin(), got.bytes.end());
        const sent done = co_await peer.send(kept);
        if (done.error) co_return;
      }
    });
    std::vector<std::thread> peers;
    for (unsigned i = 0; i < 8; ++i) {
      peers.emplace_back([&, i] {
        tcp_client client(server->address);
        for (unsigned round = 0; round < 10; ++round) {
          const std::string text = pattern(1 + 997 * (round * 8 + i) % 40'000, i);
          std::thread sender([&] { EXPECT_TRUE(client.send(text)); });
          const std::string got = client.receive(text.size());
          sender.join();
          EXPECT_TRUE(got == text) << got.size() << " of " << text.size();
        }
      });
    }
    for (std::thread& each : peers) each.join();
    server->finish();
    std::uint64_t stolen = 0;
    for (const auto& each : server->workers.statistics().workers) stolen += each.steal_entries;
    EXPECT_GT(stolen, 50U);
  }
}

TEST_P(reactor_contract, serves_others_while_a_connection_does_not_read_what_it_is_sent) {
  options scarce = settings();
  scarce.ring_buffers = 4;
  std::atomic<bool> read{false};
  std::atomic<std::size_t> drained{0};
  test_server server(scarce, [&](stream peer) -> task<void> {
    const received first = co_await peer.receive();
    if (first.bytes.empty()) co_return;
    if (static_cast<char>(first.bytes.front()) == 'e') {
      static_cast<void>(co_await peer.send(bytes_of("e")));
      co_return co_await echo(std::move(peer));
    }
    std::size_t bytes = first.bytes.size();
    while (!read) co_await sleep_for(1ms);
    for (;;) {  // ends with the peer
      const received got = co_await peer.receive();
      if (got.error || got.end()) break;
      bytes += got.bytes.size();
    }
    drained += bytes;
  });
  const std::string text(64 * 1024, 'h');
  std::deque<tcp_client> hoarders;
  std::size_t total = 0;
  for (int i = 0; i < 4; ++i) {
    hoarders.emplace_back(server.address);
    for (int stalls = 0; stalls < 5;) {  // until the sockets are full
      const std::size_t taken = hoarders.back().send_some(text);
      total += taken;
      stalls = taken == 0 ? stalls + 1 : 0;
      if (taken == 0) std::this_thread::sleep_for(5ms);
    }
  }
  tcp_client client(server.address);
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(client.send("e"));
    ASSERT_EQ(client.receive(1), "e");
  }
  const std::string big = pattern(1 << 20);
  std::thread sender([&] { EXPECT_TRUE(client.send(big)); });
  EXPECT_TRUE(client.receive(big.size()) == big);
  sender.join();
  read = true;
  for (tcp_client& each : hoarders) each.shutdown_send();
  EXPECT_TRUE(eventually([&] { return drained == total; })) << drained << " of " << total;
}

/// Counts handlers, not time, so that a busy machine changes nothing.
TEST_P(reactor_contract, lets_nobody_wait_for_two_handlers_of_one_that_yields) {
  if (GetParam().threads != 0) GTEST_SKIP() << "a reactor thread's turn is the system's to give";
  options one = settings();
  one.workers = 1;
  std::atomic<int> handled{0};
  std::atomic<bool> over{false};
  std::vector<int> waited;  // the one worker's
  waited.reserve(1000);
  std::unique_ptr<test_server> server;
  server = std::make_unique<test_server>(one, [&](stream peer) -> task<void> {
    const received first = co_await peer.receive();
    if (first.bytes.size() != sizeof(int)) {
      while (!over) {  // pipelined requests, each of them slow
        for (const auto start = steady::now(); steady::now() - start < 5ms;) {
        }
        ++handled;
        co_await server->workers.yield();
      }
      co_return;
    }
    static_cast<void>(co_await peer.send(first.bytes));
    for (;;) {  // ends with the peer
      const received got = co_await peer.receive();
      int then = 0;
      if (got.bytes.size() != sizeof then) co_return;
      std::memcpy(&then, got.bytes.data(), sizeof then);
      waited.push_back(handled - then);
      static_cast<void>(co_await peer.send(got.bytes));
    }
  });
  std::deque<tcp_client> fast;
  const auto ask = [&](tcp_client& through) {
    const int now = handled;
    const std::string_view text(reinterpret_cast<const char*>(&now), sizeof now);
    return through.send(text) && through.receive(sizeof now) == text;
  };
  for (int i = 0; i < 8; ++i) {
    fast.emplace_back(server->address);
    ASSERT_TRUE(ask(fast.back()));
  }
  tcp_client slow(server->address);
  ASSERT_TRUE(slow.send("s"));
  for (int round = 0; round < 25; ++round) {
    for (tcp_client& each : fast) ASSERT_TRUE(ask(each));
  }
  over = true;
  fast.clear();
  server->finish();
  ASSERT_EQ(waited.size(), 200U);
  std::sort(waited.begin(), waited.end());
  EXPECT_LT(waited[waited.size() * 99 / 100], 2);
}

TEST_P(reactor_contract, frees_everything_when_the_pool_ends_under_its_connections) {
  for (int round = 0; round < 20; ++round) {
    std::atomic<int> alive{0};
    std::deque<tcp_client> clients;
    {
      std::atomic<int> begun{0};
      const std::string text(16 << 20, 's');  // outlives the pool
      test_server server(settings(), [&](stream peer) -> task<void> {
        const living me(alive);
        const int which = begun++ % 4;
        if (which == 0) static_cast<void>(co_await peer.receive());
        if (which == 1) static_cast<void>(co_await peer.send(bytes_of(text)));
        if (which == 2) co_await sleep_for(1h);
        peer.timeout(1h);
        for (;;) {  // ends with the pool, or its peer
          const received got = co_await peer.receive();
          if (got.error || got.end()) co_return;
        }
      });
      for (int i = 0; i < 16; ++i) {
        clients.emplace_back(server.address);
        if (i % 3 == 0) clients.back().send("unread");
      }
      if (round % 2 == 0) {
        EXPECT_TRUE(eventually([&] { return begun == 16; }));
      }
      if (round % 3 == 0) clients.resize(8);
    }
    EXPECT_EQ(alive, 0);
    for (tcp_client& each : clients) {
      char scrap[4096];
      while (each.receive(scrap, sizeof scrap) == sizeof scrap) {
      }
      EXPECT_LE(each.receive_end(), 0);
    }
  }
}

}  // namespace bwos::test
