// SPDX-License-Identifier: Apache-2.0
// A listener that finds no memory for a connection closes it, counts it and goes on.
#include <bwos/io_threads.hpp>

#include <deque>

#include "counting_new.hpp"
#include "reactor_fixture.hpp"

namespace bwos::test {
namespace {

using counting_new::no_memory;

class no_memory_on : public reactor_contract {};

std::size_t counted(const test_server& server) {
  return server.accepting.accepted() + server.accepting.refused();
}

bool is_served(const test_server& server) {
  tcp_client client(server.address);
  return client.send("ping") && client.receive(4) == "ping";
}

TEST_P(no_memory_on, an_accept_refuses_the_connection_and_goes_on) {
  test_server server(settings(), &echo);
  ASSERT_TRUE(is_served(server));
  ASSERT_TRUE(eventually([&] { return server.accepting.connections() == 0; }));
  std::deque<tcp_client> clients(20);
  bool all_refused = false;
  {
    const no_memory now;
    for (tcp_client& each : clients) each.connect(server.address);
    all_refused = eventually([&] { return server.accepting.refused() == 20; });
  }
  EXPECT_TRUE(all_refused) << server.accepting.refused();
  for (tcp_client& each : clients) EXPECT_LE(each.receive_end(), 0);
  EXPECT_EQ(server.accepting.accepted(), 1U);
  EXPECT_EQ(server.accepting.connections(), 0U);
  EXPECT_TRUE(is_served(server));
  EXPECT_EQ(server.accepting.accepted(), 2U);
  server.finish();
}

/// Each allocation on the way of a new descriptor and a new connection fails once.
TEST_P(no_memory_on, whichever_allocation_of_an_accept_fails_it_goes_on) {
  test_server server(settings(), &echo);
  std::deque<tcp_client> open;  // so that every connection needs a new descriptor
  constexpr std::size_t most = 12;
  for (std::size_t which = 0; which < most; ++which) {
    tcp_client& client = open.emplace_back();
    const std::size_t before = counted(server);
    const std::size_t refused = server.accepting.refused();
    {
      const no_memory once(which, which);
      client.connect(server.address);
      while (counted(server) == before) std::this_thread::yield();
    }
    if (server.accepting.refused() != refused) {
      EXPECT_LE(client.receive_end(), 0);
    } else {
      ASSERT_TRUE(client.send("ping"));
      EXPECT_EQ(client.receive(4), "ping");
    }
  }
  EXPECT_GE(server.accepting.refused(), 2U);
  EXPECT_EQ(counted(server), most);
  EXPECT_TRUE(is_served(server));
  open.clear();
  server.finish();
  EXPECT_EQ(server.accepting.connections(), 0U);
}

TEST_P(no_memory_on, those_above_the_limit_are_closed_without_a_word) {
  test_server server(
      settings(), &echo, 1,
      [](stream peer) -> task<void> { static_cast<void>(co_await peer.send(bytes_of("full"))); },
      8);
  tcp_client first(server.address);
  ASSERT_TRUE(first.send("ping"));
  ASSERT_EQ(first.receive(4), "ping");
  tcp_client told(server.address);
  ASSERT_EQ(told.receive(4), "full");
  ASSERT_EQ(told.receive_end(), 0);
  tcp_client second;
  bool refused = false;
  {
    const no_memory now;
    second.connect(server.address);
    refused = eventually([&] { return server.accepting.refused() == 2; });
  }
  EXPECT_TRUE(refused);
  EXPECT_LE(second.receive_end(), 0);
  EXPECT_EQ(server.accepting.refused(), 2U);
  ASSERT_TRUE(first.send("ping"));
  EXPECT_EQ(first.receive(4), "ping");
  first.close();
  server.finish();
}

TEST_P(no_memory_on, whichever_allocation_of_a_start_fails_it_can_be_tried_again) {
  captures counted;
  pool workers(settings());
  int failures = 0;
  for (std::size_t which = 0; which < 12; ++which) {
    listener accepting(workers, "127.0.0.1:0", 8);
    listener::handler serve = [kept = counted.make()](stream peer) {
      return echo(std::move(peer));
    };
    try {
      const no_memory once(which, which);
      accepting.start(serve, 8);
    } catch (const std::exception&) {
      ++failures;
      accepting.start(serve, 8);
    }
    tcp_client client(accepting.address());
    EXPECT_TRUE(is_answered(client)) << which;
  }
  EXPECT_GE(failures, 3);
  workers.join();
  EXPECT_EQ(counted.alive, 0);
}

INSTANTIATE_TEST_SUITE_P(epoll_shared, no_memory_on,
                         testing::Values(flavour{reactor_kind::epoll, 8}), worker_count_name);
INSTANTIATE_TEST_SUITE_P(io_uring, no_memory_on,
                         testing::Values(flavour{reactor_kind::io_uring, 1}), worker_count_name);
INSTANTIATE_TEST_SUITE_P(epoll_dedicated, no_memory_on,
                         testing::Values(flavour{reactor_kind::epoll, 1, 1}), worker_count_name);

}  // namespace
}  // namespace bwos::test
