// SPDX-License-Identifier: Apache-2.0
// What every reactor promises to a connection. contract_reactor_limits.hpp: where something runs
// out, or is late.
#pragma once

#include <signal.h>
#include <sys/syscall.h>

#include <algorithm>
#include <deque>
#include <filesystem>
#include <memory>

#include "counting_new.hpp"
#include "reactor_fixture.hpp"

namespace bwos::test {

TEST_P(reactor_contract, echoes) {
  test_server server(settings(), echo);
  tcp_client client(server.address);
  for (int i = 0; i < 100; ++i) {
    const std::string text = "message " + std::to_string(i);
    ASSERT_TRUE(client.send(text));
    ASSERT_EQ(client.receive(text.size()), text);
  }
  client.close();
  server.finish();
  EXPECT_EQ(server.accepting.accepted(), 1U);
  EXPECT_EQ(server.accepting.connections(), 0U);
}

TEST_P(reactor_contract, serves_many_connections_through_small_queues) {
  options small = settings();
  small.ring_entries = 8;  // completions overflow, and submissions wait for room
  test_server server(small, echo);
  std::deque<tcp_client> clients;
  for (int i = 0; i < 200; ++i) clients.emplace_back(server.address);
  for (int round = 0; round < 10; ++round) {
    for (tcp_client& each : clients) ASSERT_TRUE(each.send("ping"));
    for (tcp_client& each : clients) ASSERT_EQ(each.receive(4), "ping");
  }
  clients.clear();
  server.finish();
}

TEST_P(reactor_contract, moves_a_mebibyte_both_ways_to_a_slow_reader) {
  test_server server(settings(), echo);
  tcp_client client;
  client.receive_buffer(8192);
  client.connect(server.address);
  const std::string text = pattern(1 << 20);
  std::thread sender([&] {
    EXPECT_TRUE(client.send(text));
    client.shutdown_send();
  });
  std::string got;
  while (got.size() < text.size()) {
    const std::string part = client.receive(std::min<std::size_t>(16384, text.size() - got.size()));
    if (part.empty()) break;
    got += part;
    std::this_thread::sleep_for(500us);
  }
  sender.join();
  EXPECT_TRUE(got == text);
  EXPECT_EQ(client.receive_end(), 0);
}

TEST_P(reactor_contract, meets_a_half_close_behind_the_last_byte) {
  test_server server(settings(), [](stream peer) -> task<void> {
    std::size_t bytes = 0;
    for (;;) {  // ends with the peer
      const received got = co_await peer.receive();
      if (got.end()) break;
      bytes += got.bytes.size();
    }
    const received again = co_await peer.receive();
    const std::string answer = std::to_string(bytes) + (again.end() ? " end" : " ?");
    static_cast<void>(co_await peer.send(bytes_of(answer)));
  });
  for (int i = 0; i < times(200); ++i) {
    tcp_client client(server.address);
    ASSERT_TRUE(client.send("last words"));
    client.shutdown_send();
    ASSERT_EQ(client.receive(100), "10 end");
  }
}

TEST_P(reactor_contract, reports_a_reset_by_the_peer) {
  std::atomic<int> resets{0};
  test_server server(settings(), [&](stream peer) -> task<void> {
    const received got = co_await peer.receive();
    if (got.bytes.size() == 1) {
      const received next = co_await peer.receive();
      resets += next.error == std::errc::connection_reset;
    }
  });
  for (int i = 0; i < 20; ++i) {
    tcp_client client(server.address);
    ASSERT_TRUE(client.send("x"));
    ASSERT_TRUE(eventually([&] { return server.accepting.connections() == 1; }));
    std::this_thread::sleep_for(2ms);  // else the reset may overtake the byte
    client.reset();
    ASSERT_TRUE(eventually([&] { return server.accepting.connections() == 0; }));
  }
  EXPECT_EQ(resets, 20);
}

/// What 20 connections receive whose peers have sent `last` and reset them while they did not look.
struct behind_resets {
  std::atomic<std::size_t> bytes{0};
  std::atomic<int> resets{0};

  void receive(const options& of, std::string_view last, bool ends_before) {
    std::atomic<bool> is_reset{false};
    test_server server(of, [&](stream peer) -> task<void> {
      static_cast<void>(co_await peer.receive());
      while (!is_reset) std::this_thread::sleep_for(1ms);
      std::this_thread::sleep_for(2ms);  // until other workers have been told, if there are any
      for (;;) {                         // ends with the connection
        const received next = co_await peer.receive();
        bytes += next.bytes.size();
        resets += next.error == std::errc::connection_reset;
        if (next.bytes.empty()) break;
      }
    });
    for (int i = 0; i < 20; ++i) {
      is_reset = false;
      tcp_client client(server.address);
      ASSERT_TRUE(client.send("x"));
      ASSERT_TRUE(eventually([&] { return server.accepting.connections() == 1; }));
      std::this_thread::sleep_for(5ms);  // until the server has it
      ASSERT_TRUE(client.send(last));
      if (ends_before) client.shutdown_send();
      client.reset();
      is_reset = true;
      ASSERT_TRUE(eventually([&] { return server.accepting.connections() == 0; }));
    }
  }
};

/// Of an io_uring the kernel may have received it by then.
TEST_P(reactor_contract, drops_what_was_sent_before_a_reset) {
  if (GetParam().kind == reactor_kind::io_uring) GTEST_SKIP() << "epoll alone";
  behind_resets seen;
  seen.receive(settings(), "nobody waits for the answer to this", false);
  EXPECT_EQ(seen.resets, 20);
  EXPECT_EQ(seen.bytes, 0U);
}

TEST_P(reactor_contract, gives_what_was_sent_and_ended_before_a_reset) {
  constexpr std::string_view last = "whoever sent this wants no answer";
  behind_resets seen;
  seen.receive(settings(), last, true);
  EXPECT_EQ(seen.bytes, 20 * last.size());
}

TEST_P(reactor_contract, resets_when_asked_to) {
  test_server server(settings(), [](stream peer) -> task<void> {
    static_cast<void>(co_await peer.receive());
    peer.reset_on_close();
  });
  for (int i = 0; i < 20; ++i) {
    tcp_client client(server.address);
    ASSERT_TRUE(client.send("x"));
    EXPECT_EQ(client.receive_end(), -ECONNRESET);
  }
}

TEST_P(reactor_contract, closes_what_it_has_only_just_accepted) {
  test_server server(settings(), [](stream) -> task<void> { co_return; });
  for (int i = 0; i < times(1000); ++i) {
    tcp_client client(server.address);
    ASSERT_EQ(client.receive_end(), 0);
  }
}

TEST_P(reactor_contract, survives_peers_that_connect_and_close_at_once) {
  constexpr int connections = 10'000;
  test_server server(settings(), echo);
  for (int i = 0; i < connections; ++i) {
    tcp_client client(server.address);
    if (i % 3 == 1) client.reset();
    if (i % 3 == 2) client.send("gone");
  }
  // A reset that comes before accept4 is never seen.
  const auto seen = [&] { return server.accepting.accepted() > connections / 2; };
  ASSERT_TRUE(eventually(seen));
  ASSERT_TRUE(eventually([&] { return server.accepting.connections() == 0; }));
  tcp_client client(server.address);
  ASSERT_TRUE(client.send("still there"));
  EXPECT_EQ(client.receive(11), "still there");
}

TEST_P(reactor_contract, spreads_connections_evenly) {
  test_server server(settings(), echo);
  std::deque<tcp_client> clients;
  for (int i = 0; i < 64; ++i) clients.emplace_back(server.address);
  ASSERT_TRUE(eventually([&] { return server.accepting.connections() == 64; }));
  const auto& homes = server.workers.core().homes();
  const unsigned shared = GetParam().group > 1 ? 1U : 2U;
  ASSERT_EQ(homes.size(), GetParam().threads != 0 ? GetParam().threads : shared);
  for (const reactor* const each : homes)
    EXPECT_NEAR(each->connections(), 64 / static_cast<int>(homes.size()), 2);
}

TEST_P(reactor_contract, accepts_the_rest_while_the_first_is_busy_from_its_start) {
  std::atomic<bool> busy{false};
  std::atomic<bool> go{false};
  std::atomic<int> served{0};
  pool workers(settings());
  listener accepting(workers, "127.0.0.1:0", 4096);
  std::deque<tcp_client> clients;  // three, so that one is at home where the busy worker is not
  for (int i = 0; i < 3; ++i) clients.emplace_back(accepting.address());
  const auto handler = [&](stream) -> task<void> {
    if (busy.exchange(true)) {
      ++served;
    } else {
      while (!go) std::this_thread::yield();
    }
    co_return;
  };
  accepting.start(handler, clients.size());
  EXPECT_TRUE(eventually([&] { return accepting.accepted() == 3; }));
  EXPECT_TRUE(eventually([&] { return served > 0; }));
  go = true;
  accepting.close();
  workers.join();
  EXPECT_EQ(served, 2);
}

TEST_P(reactor_contract, takes_what_the_backlog_holds_and_refuses_the_rest_once_closed) {
  test_server server(settings(), echo);
  tcp_client early(server.address);
  server.accepting.close();
  ASSERT_TRUE(eventually([&] { return server.accepting.closed(); }));
  EXPECT_THROW(tcp_client late(server.address), std::system_error);
  ASSERT_TRUE(early.send("ping"));
  EXPECT_EQ(early.receive(4), "ping");
  early.close();
  server.finish();
  EXPECT_EQ(server.accepting.accepted(), 1U);
}

TEST_P(reactor_contract, interrupts_one_receive_of_each_connection) {
  std::atomic<int> interrupted{0};
  test_server server(settings(), [&](stream peer) -> task<void> {
    for (;;) {  // ends with the peer
      const received got = co_await peer.receive();
      if (got.error == std::errc::operation_canceled) {
        ++interrupted;
        continue;
      }
      if (got.error || got.end()) co_return;
      static_cast<void>(co_await peer.send(bytes_of("!")));
    }
  });
  std::deque<tcp_client> clients;
  for (int i = 0; i < 10; ++i) clients.emplace_back(server.address);
  ASSERT_TRUE(eventually([&] { return server.accepting.connections() == 10; }));
  server.accepting.interrupt_connections();
  EXPECT_TRUE(eventually([&] { return interrupted == 10; }));
  for (tcp_client& each : clients) {
    ASSERT_TRUE(each.send("?"));
    EXPECT_EQ(each.receive(1), "!");
  }
  EXPECT_EQ(interrupted, 10);
}

TEST_P(reactor_contract, an_interruption_that_overtakes_bytes_does_not_lose_them) {
  options alone = settings();
  alone.workers = 1;
  alone.reactor_group = 1;
  std::atomic<bool> stalled{false};
  std::atomic<bool> go{false};
  std::atomic<int> answers{0};
  listener* accepting = nullptr;
  test_server server(alone, [&](stream peer) -> task<void> {
    for (;;) {  // ends with the peer
      const received got = co_await peer.receive();
      if (got.error == std::errc::operation_canceled) continue;
      if (got.error || got.end()) co_return;
      if (got.bytes.front() == std::byte{'s'}) {
        stalled = true;
        while (!go) std::this_thread::yield();
      } else if (++answers == 1) {
        accepting->interrupt_connections();  // the others have been notified, and not yet run
      }
      static_cast<void>(co_await peer.send(bytes_of("!")));
    }
  });
  accepting = &server.accepting;
  std::deque<tcp_client> clients;
  for (int i = 0; i < 5; ++i) clients.emplace_back(server.address);
  ASSERT_TRUE(eventually([&] { return server.accepting.connections() == 5; }));
  ASSERT_TRUE(clients.front().send("s"));
  ASSERT_TRUE(eventually([&] { return stalled.load(); }));
  for (std::size_t i = 1; i < clients.size(); ++i) ASSERT_TRUE(clients[i].send("?"));
  go = true;
  for (tcp_client& each : clients) EXPECT_EQ(each.receive(1), "!");
}

TEST_P(reactor_contract, takes_an_interrupted_system_call_for_a_spurious_wake) {
  struct sigaction ignore{};
  struct sigaction before{};
  ignore.sa_handler = [](int) {};  // without SA_RESTART
  ::sigaction(SIGUSR1, &ignore, &before);
  {
    test_server server(settings(), echo);
    tcp_client client(server.address);
    std::atomic<bool> over{false};
    std::thread storm([&] {
      const auto self = static_cast<pid_t>(::syscall(SYS_gettid));
      while (!over) {
        for (const auto& each : std::filesystem::directory_iterator("/proc/self/task")) {
          const pid_t thread = std::stoi(each.path().filename().string());
          if (thread != self && thread != ::getpid())
            ::syscall(SYS_tgkill, ::getpid(), thread, SIGUSR1);
        }
      }
    });
    for (int i = 0; i < times(5000); ++i) {
      EXPECT_TRUE(client.send("ping"));
      EXPECT_EQ(client.receive(4), "ping");
      if (HasFailure()) break;
    }
    over = true;
    storm.join();
  }
  ::sigaction(SIGUSR1, &before, nullptr);
}

TEST_P(reactor_contract, wakes_a_parked_worker_for_a_post_from_outside) {
  struct signal : continuation {
    signal() noexcept : continuation(&run) {}
    static void run(continuation& self, disposition) noexcept {
      static_cast<signal&>(self).ran.store(true, std::memory_order_release);
      static_cast<signal&>(self).ran.notify_one();
    }
    std::atomic<bool> ran{false};
  };
  pool workers(settings());
  for (int i = 0; i < times(5000); ++i) {
    if (i % 2 == 0) {
      ASSERT_TRUE(eventually([&] { return workers.statistics().parked == 2; }));
    }
    signal work;
    workers.post(work);
    work.ran.wait(false, std::memory_order_acquire);
  }
}

TEST_P(reactor_contract, sends_and_receives_on_whichever_worker_runs_the_connection) {
  options many_pieces = settings();
  many_pieces.receive_bytes = 4096;
  std::unique_ptr<test_server> server;
  server = std::make_unique<test_server>(many_pieces, [&](stream peer) -> task<void> {
    mover other(server->workers);
    std::vector<std::byte> kept;
    for (;;) {  // ends with the peer
      co_await other.move();
      const received got = co_await peer.receive();
      if (got.error || got.end()) co_return;
      kept.assign(got.bytes.begin(), got.bytes.end());
      co_await other.move();
      const sent done = co_await peer.send(kept);
      if (done.error) co_return;
    }
  });
  tcp_client client;
  client.receive_buffer(4096);  // so that sends wait as well
  client.connect(server->address);
  const std::string text = pattern(sanitized ? 1 << 18 : 1 << 20);
  std::thread sender([&] { EXPECT_TRUE(client.send(text)); });
  const std::string got = client.receive(text.size());
  sender.join();
  EXPECT_TRUE(got == text);
  client.close();
  server->finish();
  std::uint64_t stolen = 0;
  for (const auto& each : server->workers.statistics().workers) stolen += each.steal_entries;
  EXPECT_GT(stolen, 10U);
}

/// What comes lies where the receiver wants it, or elsewhere; it is sent from two places.
TEST_P(reactor_contract, receives_into_memory_of_the_callers) {
  const std::string text = pattern(sanitized ? 1 << 18 : 1 << 20);
  options small = settings();
  small.receive_bytes = 4096;
  test_server server(small, [&](stream peer) -> task<void> {
    std::vector<std::byte> kept(text.size());
    for (std::size_t size = 0; size < kept.size();) {
      const std::span<std::byte> room =
          std::span(kept).subspan(size, std::min<std::size_t>(kept.size() - size, 10'000));
      const received got = co_await peer.receive({.into = room});
      if (got.error || got.end()) co_return;
      if (got.bytes.data() != room.data()) {
        EXPECT_LE(got.bytes.size(), kept.size() - size);
        std::ranges::copy(got.bytes, kept.begin() + static_cast<std::ptrdiff_t>(size));
      } else {
        EXPECT_LE(got.bytes.size(), room.size());
      }
      size += got.bytes.size();
    }
    std::span<const std::byte> rest(kept);
    while (!rest.empty()) {  // ends: where a piece is not taken it waits for the next
      const auto first = rest.first(std::min<std::size_t>(rest.size(), 1000));
      const auto behind =
          rest.subspan(first.size(), std::min<std::size_t>(rest.size() - first.size(), 30'000));
      const sent some = peer.try_send(first, behind);
      if (some.error) co_return;
      EXPECT_LE(some.bytes, first.size() + behind.size());
      rest = rest.subspan(some.bytes);
      if (some.bytes > 0) continue;
      const sent one = co_await peer.send(rest.first(1));
      if (one.error) co_return;
      rest = rest.subspan(1);
    }
  });
  tcp_client client(server.address);
  std::thread sender([&] { EXPECT_TRUE(client.send(text)); });
  const std::string got = client.receive(text.size());
  sender.join();
  EXPECT_TRUE(got == text);
}

TEST_P(reactor_contract, leaves_in_the_socket_what_is_more_than_a_receive_takes) {
  const std::string text = pattern(1 << 16);
  std::atomic<std::size_t> most{0};
  test_server server(settings(), [&](stream peer) -> task<void> {
    std::vector<std::byte> kept;
    for (std::size_t i = 0; kept.size() < text.size(); ++i) {
      const received got = co_await peer.receive({.at_most = 1 + i * 37 % 500});
      if (got.error || got.end()) co_return;
      if (got.bytes.size() > 1 + i * 37 % 500) most = std::max(most.load(), got.bytes.size());
      kept.insert(kept.end(), got.bytes.begin(), got.bytes.end());
    }
    static_cast<void>(co_await peer.send(kept));
  });
  tcp_client client(server.address);
  std::thread sender([&] { EXPECT_TRUE(client.send(text)); });
  const std::string got = client.receive(text.size());
  sender.join();
  EXPECT_TRUE(got == text);
  if (GetParam().kind == reactor_kind::epoll) {
    EXPECT_EQ(most, 0U);  // io_uring has received before it is asked
  }
}

TEST_P(reactor_contract, allocates_nothing_for_round_trips_and_timers_once_warm) {
  std::atomic<int> ended{0};
  test_server server(settings(), [](stream peer) -> task<void> {
    for (;;) {  // ends with the peer
      peer.timeout(10s);
      const received got = co_await peer.receive();
      if (got.error || got.end()) co_return;
      if (peer.try_send(got.bytes).bytes != got.bytes.size()) co_return;
    }
  });
  tcp_client client(server.address);
  char byte = 'x';
  const auto round_trips = [&](int count) {
    for (int i = 0; i < count; ++i) {
      if (!client.send({&byte, 1}) || client.receive(&byte, 1) != 1) return false;
    }
    return true;
  };
  ASSERT_TRUE(round_trips(1000));
  const std::size_t warm = counting_new::allocations();
  ASSERT_TRUE(round_trips(times(20'000)));
  EXPECT_EQ(counting_new::allocations(), warm);

  constexpr int sleepers = 1000;
  std::atomic<bool> go{false};
  const auto sleep = [](std::atomic<bool>& start, std::atomic<int>& count, int naps) -> task<void> {
    while (!start) co_await sleep_for(1ms);
    for (int i = 0; i < naps; ++i) co_await sleep_for(1ms);
    ++count;
  };
  for (int i = 0; i < sleepers; ++i)
    spawn(server.workers, sleep(go, ended, times(100'000) / sleepers));
  std::this_thread::sleep_for(20ms);
  const std::size_t before = counting_new::allocations();
  go = true;
  while (ended != sleepers) std::this_thread::sleep_for(1ms);
  EXPECT_EQ(counting_new::allocations(), before);
}

}  // namespace bwos::test
