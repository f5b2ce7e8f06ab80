// SPDX-License-Identifier: Apache-2.0
// Uses of a pool that would wait for themselves, and its life in a child of fork().
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <bwos/pool.hpp>
#include <bwos/sync_wait.hpp>
#include <cerrno>
#include <csignal>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "pool_fixture.hpp"

namespace bwos {
namespace {

using namespace std::chrono_literals;
using testing::eventually;
using testing::heap_call;
using testing::options_of;
using testing::parking;

struct ended {
  int status = 0;
  std::string said;  ///< On stderr.

  [[nodiscard]] bool well() const { return WIFEXITED(status) && WEXITSTATUS(status) == 0; }
  [[nodiscard]] bool with(const std::string& message) const {
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT &&
           said.find(message) != std::string::npos;
  }
};

/// Forks. The child goes through `body` and leaves, or, if that says so, comes back from here with
/// nothing. What hangs is ended by SIGALRM.
std::optional<ended> fork_and(const std::function<bool()>& body) {
  std::array<int, 2> ends{};
  if (::pipe(ends.data()) != 0) return ended{.status = errno, .said = "no pipe"};
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(30);
    ::dup2(ends[1], STDERR_FILENO);
    if (body()) return std::nullopt;
    ::_exit(0);
  }
  ::close(ends[1]);
  ended result;
  std::array<char, 512> piece{};
  for (ssize_t size = 0; (size = ::read(ends[0], piece.data(), piece.size())) > 0;) {
    result.said.append(piece.data(), static_cast<std::size_t>(size));
  }
  ::close(ends[0]);
  ::waitpid(child, &result.status, 0);
  return result;
}

ended child_of_outside(const std::function<void()>& body) {
  return *fork_and([&] {
    body();
    return false;
  });
}

class forked_pool : public ::testing::TestWithParam<parking> {};
class misused_pool_death : public ::testing::TestWithParam<parking> {
 protected:
  misused_pool_death() { ::testing::FLAGS_gtest_death_test_style = "threadsafe"; }
};

#define BWOS_ON_ALL(suite)                                                                        \
  INSTANTIATE_TEST_SUITE_P(                                                                       \
      parking, suite,                                                                             \
      ::testing::Values(testing::on_futexes, testing::on_private_sets, testing::on_a_shared_set), \
      testing::name_of)
BWOS_ON_ALL(forked_pool);
BWOS_ON_ALL(misused_pool_death);

constexpr const char* waits_for_itself =
    "inside one of its own workers, which would wait for itself";

TEST_P(misused_pool_death, join_inside_a_worker_ends_with_a_message) {
  for (const unsigned workers : {1U, 2U}) {
    EXPECT_DEATH(
        {
          pool under_test(options_of(GetParam(), workers));
          heap_call::post(under_test, [&] { under_test.join(); });
          under_test.join();
        },
        waits_for_itself);
  }
}

TEST_P(misused_pool_death, join_inside_an_attached_thread_ends_with_a_message) {
  EXPECT_DEATH(
      {
        pool under_test(options_of(GetParam(), 0));
        heap_call::post(under_test, [&] { under_test.join(); });
        under_test.attach();
      },
      waits_for_itself);
}

TEST_P(misused_pool_death, join_after_stop_and_through_another_pool_ends_with_a_message) {
  EXPECT_DEATH(
      {
        pool outer(options_of(GetParam(), 1));
        pool inner(options_of(GetParam(), 0));
        heap_call::post(inner, [&] {
          outer.stop();
          outer.join();
        });
        heap_call::post(outer, [&] { inner.attach(); });
        std::this_thread::sleep_for(30s);
      },
      waits_for_itself);
}

TEST_P(misused_pool_death, the_end_inside_a_worker_ends_with_a_message) {
  EXPECT_DEATH(
      {
        auto* const under_test = new pool(options_of(GetParam(), 2));
        heap_call::post(*under_test, [&] { delete under_test; });
        std::this_thread::sleep_for(30s);
      },
      waits_for_itself);
}

TEST_P(forked_pool, another_pool_may_live_and_be_joined_inside_a_worker) {
  std::atomic<int> ran = 0;
  pool outer(options_of(GetParam(), 1));
  heap_call::post(outer, [&] {
    pool inner(options_of(GetParam(), 2));
    for (int i = 0; i < 100; ++i) heap_call::post(inner, [&] { ++ran; });
    inner.join();
    EXPECT_EQ(ran, 100);
  });
  outer.join();
  EXPECT_EQ(ran, 100);
}

TEST_P(forked_pool, a_post_after_join_is_kept_and_discarded_at_the_end) {
  const auto witness = std::make_shared<int>(0);
  {
    pool under_test(options_of(GetParam(), 2));
    under_test.join();
    heap_call::post(under_test, [witness] { ++*witness; });
    under_test.join();
    EXPECT_EQ(witness.use_count(), 2);
  }
  EXPECT_EQ(witness.use_count(), 1);
  EXPECT_EQ(*witness, 0);
}

TEST_P(forked_pool, its_use_in_the_child_ends_that_with_a_message) {
  pool under_test(options_of(GetParam(), 2));
  EXPECT_FALSE(under_test.in_child());
  EXPECT_TRUE(child_of_outside([&] { heap_call::post(under_test, [] {}); }).with("bwos: post to"));
  lane_entry place;
  testing::call long_task([] {});
  EXPECT_TRUE(
      child_of_outside([&] { under_test.post_long(long_task, place); }).with("bwos: post to"));
  EXPECT_TRUE(child_of_outside([&] { under_test.join(); }).with("bwos: join of a pool"));
  EXPECT_TRUE(child_of_outside([&] { under_test.attach(); }).with("bwos: attach to a pool"));
  const ended queried = child_of_outside([&] { ::_exit(under_test.in_child() ? 0 : 1); });
  EXPECT_TRUE(queried.well()) << queried.said;
}

TEST_P(forked_pool, its_end_in_the_child_leaves_the_parent_alone) {
  auto under_test = std::make_unique<pool>(options_of(GetParam(), 2));
  ASSERT_TRUE(eventually([&] { return testing::all_parked(*under_test); }));
  const ended end = child_of_outside([&] {
    under_test->stop();
    under_test.reset();
  });
  EXPECT_TRUE(end.well()) << end.said;
  std::atomic<int> ran = 0;
  for (int i = 0; i < 1000; ++i) heap_call::post(*under_test, [&] { ++ran; });
  under_test->join();
  EXPECT_EQ(ran, 1000);
}

TEST_P(forked_pool, the_child_of_a_task_runs_what_it_forks_itself) {
  pool under_test(options_of(GetParam(), 2));
  sync_wait(under_test, [&] {
    const ended alone = child_of_outside([&] {
      int runs = 0;
      task_group group(under_test);
      for (int i = 0; i < 100; ++i) group.run([&] { invoke([&] { ++runs; }, [&] { ++runs; }); });
      group.wait();
      ::_exit(runs == 200 ? 0 : 1);
    });
    EXPECT_TRUE(alone.well()) << alone.said;
  });
}
TEST_P(forked_pool, the_child_of_a_task_runs_the_coroutines_that_it_forks_itself) {
  pool under_test(options_of(GetParam(), 2));
  const auto fib = [](auto self, int n) -> fork_task<int> {
    if (n < 2) co_return n;
    auto [a, b] = co_await fork_join(self(self, n - 1), self(self, n - 2));
    co_return a + b;
  };
  sync_wait(under_test, [&] {
    const ended alone =
        child_of_outside([&] { ::_exit(sync_wait(under_test, fib(fib, 12)) == 144 ? 0 : 1); });
    EXPECT_TRUE(alone.well()) << alone.said;
  });
}
TEST_P(forked_pool, the_child_cannot_wait_for_what_the_parents_worker_has_stolen) {
  pool under_test(options_of(GetParam(), 2));
  std::optional<ended> end;
  std::atomic<bool> stolen = false;
  std::atomic<bool> over = false;
  sync_wait(under_test, [&] {
    invoke(
        [&] {
          while (!stolen) std::this_thread::yield();
          end = fork_and([] { return true; });
          over = true;
        },
        [&] {
          stolen = true;
          while (!over) std::this_thread::sleep_for(1ms);
        });
  });
  EXPECT_TRUE(end->with("bwos: a wait for forked work in a child")) << end->said;
}
TEST_P(forked_pool, the_child_of_a_task_may_leave_but_not_return) {
  pool under_test(options_of(GetParam(), 1));
  std::atomic<int> ran = 0;
  heap_call::post(under_test, [&] {
    for (int i = 0; i < 10; ++i) heap_call::post(under_test, [&] { ++ran; });
    const ended left = child_of_outside([] {});
    EXPECT_TRUE(left.well()) << left.said;
    const ended program =
        child_of_outside([] { ::execl("/bin/sh", "sh", "-c", "exit 0", nullptr); });
    EXPECT_TRUE(program.well()) << program.said;
    const auto returned = fork_and([] { return true; });
    if (!returned) return;  // in the child, in which no other task may run now
    EXPECT_TRUE(returned->with("bwos: a task has returned in a child of fork()")) << returned->said;
  });
  under_test.join();
  EXPECT_EQ(ran, 10);
}

TEST_P(forked_pool, the_child_of_a_long_task_may_not_return_either) {
  pool under_test(options_of(GetParam(), 1));
  lane_entry place;
  std::optional<ended> returned;
  testing::call long_task([&] { returned = fork_and([] { return true; }); });
  under_test.post_long(long_task, place);
  under_test.join();
  ASSERT_TRUE(returned.has_value());
  EXPECT_TRUE(returned->with("bwos: a task has returned in a child of fork()")) << returned->said;
}

TEST_P(forked_pool, a_child_has_pools_of_its_own) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "TSan knows no threads in a child of fork()";
#endif
  const pool parents(options_of(GetParam(), 2));
  // ASan's child of a process that was just making a thread can make none.
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  const ended end = child_of_outside([&] {
    std::atomic<int> ran = 0;
    pool own(options_of(GetParam(), 2));
    for (int i = 0; i < 100; ++i) heap_call::post(own, [&] { ++ran; });
    own.join();
    ::_exit(ran == 100 && !own.in_child() ? 0 : 1);
  });
  EXPECT_TRUE(end.well()) << end.said;
}

}  // namespace
}  // namespace bwos
