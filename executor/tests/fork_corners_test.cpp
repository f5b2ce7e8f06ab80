// SPDX-License-Identifier: Apache-2.0
// Fork-join among everything else that a pool does, and where the kernel has no membarrier(2).
#include <bwos/fork_join.hpp>

#include <sys/syscall.h>

#include <bwos/base/asymmetric_fence.hpp>
#include <bwos/parallel.hpp>
#include <bwos/sync_wait.hpp>
#include <bwos/task_group.hpp>
#include <cstdlib>

#include "forbidden_call.hpp"
#include "reactor_fixture.hpp"

namespace bwos::test {
namespace {

fork_task<long> fib(long n) {
  if (n < 2) co_return n;
  auto [a, b] = co_await fork_join(fib(n - 1), fib(n - 2));
  co_return a + b;
}

class fork_join_beside_events : public reactor_contract {};
INSTANTIATE_TEST_SUITE_P(epoll_private, fork_join_beside_events,
                         testing::Values(flavour{reactor_kind::epoll, 1}), worker_count_name);
INSTANTIATE_TEST_SUITE_P(epoll_shared, fork_join_beside_events,
                         testing::Values(flavour{reactor_kind::epoll, 8}), worker_count_name);
INSTANTIATE_TEST_SUITE_P(io_uring, fork_join_beside_events,
                         testing::Values(flavour{reactor_kind::io_uring, 1}), worker_count_name);
INSTANTIATE_TEST_SUITE_P(epoll_dedicated, fork_join_beside_events,
                         testing::Values(flavour{reactor_kind::epoll, 1, 1}), worker_count_name);

/// '\0' at the end.
fork_task<char> next_byte(stream& peer) {
  const received got = co_await peer.receive();
  co_return got.bytes.empty() ? '\0' : static_cast<char>(got.bytes[0]);
}

fork_task<long> sleeps_and_loops(pool& where) {
  co_await sleep_for(1ms);
  co_await where.lane();
  co_return parallel_reduce(where, 0, 100, 0L, [](int i) { return long{i}; }, {}, {.grain = 5});
}

/// In the lane, with children of which one waits for the socket and another for a timer.
task<> serve(pool& where, stream peer) {
  for (;;) {  // ends with the peer
    co_await where.lane();
    auto [byte, first, second] =
        co_await fork_join(next_byte(peer), fib(12), sleeps_and_loops(where));
    if (byte == '\0') co_return;
    const std::string answer = byte + std::to_string(first + second);
    if ((co_await peer.send(bytes_of(answer))).error) co_return;
  }
}

TEST_P(fork_join_beside_events, nests_in_the_lane_with_timers_and_sockets) {
  std::atomic<pool*> where{nullptr};
  test_server server(settings(),
                     [&](stream peer) { return serve(*where.load(), std::move(peer)); });
  where = &server.workers;
  std::vector<tcp_client> clients;
  for (int i = 0; i < 8; ++i) clients.emplace_back(server.address);
  for (int i = 0; i < times(20); ++i) {
    const std::string byte(1, static_cast<char>('a' + i));
    for (tcp_client& each : clients) ASSERT_TRUE(each.send(byte));
    for (tcp_client& each : clients) ASSERT_EQ(each.receive(5), byte + "5094");  // 144 + 4950
  }
  clients.clear();
  server.finish();
}

TEST(fork_join_of_two_pools, a_child_that_its_pools_end_has_left_unfinished_fails_the_whole) {
  for (const bool others_come : {true, false}) {
    options settings;
    settings.workers = 1;
    pool mine(settings);
    auto others = std::make_unique<pool>(settings);
    std::atomic<bool> away{false};
    std::atomic<bool> posted{false};
    std::atomic<bool> gone{false};
    auto leaves = [&]() -> fork_task<std::string> {
      co_await others->schedule();
      away = true;
      co_await sleep_for(1h);
      co_return std::string(100, 'x');
    };
    auto stays = [&]() -> fork_task<int> {
      posted = true;  // on the one worker that has posted the other
      while (others_come && !gone) co_await sleep_for(1ms);
      co_return 1;
    };
    auto both = [&]() -> fork_task<std::size_t> {
      auto [text, one, two] = co_await fork_join(leaves(), stays(), stays());
      ADD_FAILURE() << "there is no result to go on with";
      co_return text.size();
    };
    std::thread ender([&] {
      EXPECT_TRUE(eventually([&] { return away.load() && posted.load(); }));
      if (!others_come) std::this_thread::sleep_for(10ms);
      others.reset();
      gone = true;
    });
    try {
      sync_wait(mine, both());
      ADD_FAILURE() << "no exception";
    } catch (const std::system_error& caught) {
      EXPECT_EQ(caught.code(), std::errc::operation_canceled);
    }
    ender.join();
  }
}

TEST(fork_join_of_two_pools, coroutines_may_go_from_one_to_the_other_between_two_forks) {
  options settings;
  settings.workers = 2;
  pool left(settings);
  pool right(settings);
  const auto tree = [&](auto self, int depth) -> fork_task<long> {
    if (depth == 0) co_return 1;
    co_await (depth % 2 == 0 ? left : right).schedule();
    auto [a, b] = co_await fork_join(self(self, depth - 1), self(self, depth - 1));
    co_return a + b;
  };
  for (int round = 0; round < times(50); ++round) {
    ASSERT_EQ(sync_wait(round % 2 == 0 ? left : right, tree(tree, 7)), 128);
  }
  left.join();  // before either ends: a worker may still be in a post to the other
  right.join();
}

/// The queue grows.
fork_task<long> deep(long depth) {
  if (depth == 0) co_return 0;
  auto [a, b] = co_await fork_join(deep(depth - 1), fib(1));
  co_return a + b;
}

/// The first half waits for the second, which only a thief can run: it lies in the owner's block.
bool are_stolen_at_once(pool& where) {
  for (int round = 0; round < 20; ++round) {
    std::atomic<bool> stolen{false};
    bool in_time = false;
    const auto first = [&] { in_time = eventually([&] { return stolen.load(); }); };
    sync_wait(where, [&] { invoke(first, [&] { stolen = true; }); });
    if (!in_time) return false;
  }
  return true;
}

/// In a process of its own.
[[noreturn]] void work_without_membarrier() {
  if (!forbid_call(SYS_membarrier)) std::_Exit(0);  // nothing can be forbidden here
  if (asymmetric_fence::available()) std::_Exit(2);
  for (const unsigned workers : {1U, 2U, 4U}) {
    options settings;
    settings.workers = workers;
    pool where(settings);
    for (int round = 0; round < 10; ++round) {
      if (sync_wait(where, fib(16)) != 987) std::_Exit(3);
    }
    if (sync_wait(where, deep(5000)) != 5000) std::_Exit(4);
    std::atomic<int> runs{0};
    parallel_for(where, 0, 5000, [&](int) { runs.fetch_add(1); }, {.grain = 1});
    if (runs.load() != 5000) std::_Exit(5);
    if (workers > 1 && !are_stolen_at_once(where)) std::_Exit(6);
  }
  std::_Exit(0);
}

TEST(fork_join_without_membarrier, works_and_leaves_nothing_behind_a_long_task) {
  testing::FLAGS_gtest_death_test_style =
      "threadsafe";  // this process has asked the kernel already
  EXPECT_EXIT(work_without_membarrier(), testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace bwos::test
