// SPDX-License-Identifier: Apache-2.0
// A task posted to a pool whose workers all sleep is never left lying: a lost wake-up ends these
// tests by their limit. And who leaves a shared set to others for a moment, and when.
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <bwos/pool.hpp>
#include <bwos/stream.hpp>
#include <thread>
#include <vector>

#include "io/epoll/epoll_reactor.hpp"
#include "pool_fixture.hpp"

namespace bwos {
namespace {

using testing::call;
using testing::eventually;

constexpr int posts = 1'000'000 / testing::sanitizer_divisor;

class parked_pool_on : public ::testing::TestWithParam<testing::parking> {};

INSTANTIATE_TEST_SUITE_P(parking, parked_pool_on,
                         ::testing::Values(testing::on_futexes, testing::on_private_sets,
                                           testing::on_a_shared_set),
                         testing::name_of);

/// Posts one task at a time; `ready` says when the next may come.
template <class Ready>
int posts_that_ran(pool& where, int count, Ready ready) {
  std::atomic<int> ran = 0;
  call work([&] { ++ran; });
  for (int i = 0; i < count; ++i) {
    if (!eventually(ready)) return i;
    where.post(work);
    if (!eventually([&] { return ran == i + 1; })) return i;
  }
  return ran;
}

std::uint64_t parks_of(pool& where) {
  std::uint64_t parks = 0;
  for (unsigned i = 0; i < where.core().work().slots(); ++i) {
    parks += where.core().work().slot(i).statistics().park;
  }
  return parks;
}

TEST_P(parked_pool_on, runs_every_single_post) {
  pool under_test(testing::options_of(GetParam(), 2));
  // Asleep is who has announced itself, looked, and counted a park since the last post woke it.
  std::uint64_t parks = 1;
  const auto all_sleep = [&] {
    if (!testing::all_parked(under_test)) return false;
    const std::uint64_t now = parks_of(under_test);
    if (now <= parks) return false;
    parks = now;
    return true;
  };
  EXPECT_EQ(posts_that_ran(under_test, posts, all_sleep), posts);
  EXPECT_GT(parks_of(under_test), static_cast<std::uint64_t>(posts));
}

task<void> echo(stream peer) {
  for (;;) {
    const received in = co_await peer.receive();
    if (in.bytes.empty()) co_return;
    const std::byte one = in.bytes[0];
    const sent out = co_await peer.send({&one, 1});
    if (out.error) co_return;
  }
}

int connect_to(const std::string& address) {
  sockaddr_in where{};
  where.sin_family = AF_INET;
  where.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  where.sin_port =
      htons(static_cast<std::uint16_t>(std::stoi(address.substr(address.rfind(':') + 1))));
  const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
  EXPECT_EQ(::connect(fd, reinterpret_cast<sockaddr*>(&where), sizeof where), 0);
  return fd;
}

TEST(parked_pool, runs_every_single_post_on_a_shared_set_that_carries_traffic) {
  pool under_test(testing::options_of(testing::on_a_shared_set, 2));
  listener door(under_test, "127.0.0.1:0", 16);
  door.start(echo, 100);
  const int peer = connect_to(door.address());
  std::atomic<bool> over = false;
  std::atomic<int> echoes = 0;
  std::thread traffic([&] {
    char byte = 'x';
    while (!over) {
      if (::write(peer, &byte, 1) != 1 || ::read(peer, &byte, 1) != 1) break;
      ++echoes;
    }
  });
  EXPECT_EQ(posts_that_ran(under_test, posts, [] { return true; }), posts);
  over = true;
  traffic.join();
  ::close(peer);
  EXPECT_GT(echoes, posts / 1000);
  door.close();
  under_test.join();
}

std::uint64_t naps_of(pool& where) {
  std::uint64_t naps = 0;
  for (const worker_statistics& each : where.statistics().workers) naps += each.nap;
  return naps;
}

/// Two workers in one set, of which only posts from outside and events bring work to the other.
options two_in_a_set() {
  options chosen = testing::options_of(testing::on_a_shared_set, 2);
  chosen.steal = steal_kind::none;
  return chosen;
}

TEST(nap, is_taken_while_another_is_at_short_work_and_something_comes) {
  pool under_test(two_in_a_set());
  std::atomic<bool> over = false;
  call chain([&] {
    if (!over) under_test.post(chain);
  });
  under_test.post(chain);
  // A post from outside wakes the other, which then parks.
  EXPECT_TRUE(eventually([&] {
    testing::heap_call::post(under_test, [] {});
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return naps_of(under_test) >= 10;
  }));
  const auto nobody_naps = [&] {
    const std::uint64_t before = naps_of(under_test);
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    return naps_of(under_test) == before;
  };
  EXPECT_TRUE(eventually(nobody_naps)) << "nothing gets ready, and somebody keeps looking";
  over = true;
  EXPECT_TRUE(eventually([&] { return testing::all_parked(under_test) && nobody_naps(); }));
}

TEST(nap, is_not_taken_while_the_other_is_in_a_long_task) {
  pool under_test(two_in_a_set());
  listener door(under_test, "127.0.0.1:0", 16);
  door.start(echo, 100);
  std::atomic<bool> begun = false;
  std::atomic<bool> over = false;
  call task_without_end([&] {
    begun = true;
    while (!over) std::this_thread::yield();
  });
  under_test.post(task_without_end);
  EXPECT_TRUE(eventually([&] { return begun.load(); }));
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  const std::uint64_t before = naps_of(under_test);
  const int peer = connect_to(door.address());
  for (int i = 0; i < 200; ++i) {
    char byte = 'x';
    if (::write(peer, &byte, 1) != 1 || ::read(peer, &byte, 1) != 1) {
      ADD_FAILURE() << "no echo";
      break;
    }
  }
  EXPECT_EQ(naps_of(under_test), before);
  over = true;
  ::close(peer);
  door.close();
  under_test.join();
}

TEST(nap, is_not_taken_where_the_others_tasks_are_long) {
  pool under_test(two_in_a_set());
  std::atomic<bool> over = false;
  call chain([&] {
    testing::spin_for(std::chrono::microseconds(60));
    if (!over) under_test.post(chain);
  });
  under_test.post(chain);
  EXPECT_TRUE(eventually([&] {
    const pool_statistics now = under_test.statistics();
    return now.workers[0].run > 500 || now.workers[1].run > 500;
  }));
  const std::uint64_t before = naps_of(under_test);
  for (int i = 0; i < 50; ++i) {
    testing::heap_call::post(under_test, [] {});
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_EQ(naps_of(under_test), before);
  over = true;
  under_test.join();
}

/// A wake ends the wait aside, also where more is ready than one poll takes.
TEST(nap, ends_with_a_wake) {
  continuation_chain sink;
  for (const int ready : {0, 2 * static_cast<int>(reactor::batch)}) {
    epoll_reactor reactor(true);
    std::vector<int> peers;
    for (int i = 0; i < ready; ++i) {
      std::array<int, 2> ends{};
      ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends.data()), 0);
      ASSERT_NE(reactor.adopt(ends[0], 0), nullptr);  // can be written to
      peers.push_back(ends[1]);
    }
    reactor.wake();
    const auto begun = std::chrono::steady_clock::now();
    EXPECT_TRUE(reactor.wait_aside(sink, 60'000)) << ready;
    EXPECT_LT(std::chrono::steady_clock::now() - begun, std::chrono::seconds(30));
    EXPECT_TRUE(reactor.take_token());
    EXPECT_FALSE(reactor.take_token());
    EXPECT_TRUE(sink.empty());
    for (const int each : peers) ::close(each);
  }
}

}  // namespace
}  // namespace bwos
