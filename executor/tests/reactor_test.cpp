// SPDX-License-Identifier: Apache-2.0
// The contract on every reactor, and the choice between them.
#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <array>
#include <iostream>
#include <map>

#include "contract_listener.hpp"
#include "contract_reactor.hpp"
#include "contract_reactor_limits.hpp"
#include "forbidden_call.hpp"
#include "io/factory.hpp"

namespace bwos::test {

INSTANTIATE_TEST_SUITE_P(epoll_private, reactor_contract,
                         testing::Values(flavour{reactor_kind::epoll, 1}), worker_count_name);
INSTANTIATE_TEST_SUITE_P(epoll_shared, reactor_contract,
                         testing::Values(flavour{reactor_kind::epoll, 8}), worker_count_name);
INSTANTIATE_TEST_SUITE_P(io_uring, reactor_contract,
                         testing::Values(flavour{reactor_kind::io_uring, 1}), worker_count_name);
INSTANTIATE_TEST_SUITE_P(epoll_dedicated, reactor_contract,
                         testing::Values(flavour{reactor_kind::epoll, 1, 2}), worker_count_name);
INSTANTIATE_TEST_SUITE_P(io_uring_dedicated, reactor_contract,
                         testing::Values(flavour{reactor_kind::io_uring, 1, 1}), worker_count_name);

namespace {

/// The kernel's own word, without liburing: 0, or the errno of making a ring.
int kernel_refusal() {
  std::array<std::uint32_t, 30> parameters{};  // struct io_uring_params
  const long fd = ::syscall(SYS_io_uring_setup, 1, parameters.data());
  if (fd < 0) return errno;
  ::close(static_cast<int>(fd));
  return 0;
}

/// Runs `check` in a child process: 0 where it holds.
template <class Check>
int in_child(Check check) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(check() ? 0 : 1);
  int status = -1;
  ::waitpid(child, &status, 0);
  return status;
}

bool contains(const std::string& text, const char* what) {
  return text.find(what) != std::string::npos;
}

TEST(reactor_choice, automatic_is_epoll_and_says_why_not_io_uring) {
  const reactor_choice choice = choose_reactor(reactor_kind::automatic);
  EXPECT_EQ(choice.kind, reactor_kind::epoll);
  EXPECT_FALSE(choice.refused);
  EXPECT_TRUE(contains(choice.note, "own worker only")) << choice.note;
  EXPECT_TRUE(contains(choice.note, "usable")) << choice.note;
}

TEST(reactor_choice, io_uring_refused_by_the_kernel_is_epoll_with_the_errno) {
  if (!probe_uring().usable) GTEST_SKIP() << "io_uring is not usable: " << probe_uring().why;
  EXPECT_EQ(choose_reactor(reactor_kind::io_uring).kind, reactor_kind::io_uring);
  EXPECT_EQ(in_child([] {
              if (!forbid_call(SYS_io_uring_setup)) return false;
              const reactor_choice asked = choose_reactor(reactor_kind::io_uring);
              const reactor_choice automatic = choose_reactor(reactor_kind::automatic);
              return asked.kind == reactor_kind::epoll && asked.refused &&
                     contains(asked.note, "EPERM") && contains(asked.note, "io_uring_setup") &&
                     automatic.kind == reactor_kind::epoll && !automatic.refused &&
                     contains(automatic.note, "EPERM");
            }),
            0);
}

TEST(reactor_choice, a_pool_reports_it) {
  options chosen;
  chosen.workers = 1;
  chosen.reactor = reactor_kind::automatic;
  const pool workers(chosen);
  EXPECT_EQ(workers.statistics().reactor, reactor_kind::epoll);
  EXPECT_EQ(workers.statistics().reactor_note, choose_reactor(reactor_kind::automatic).note);
}

/// Every contract test exists for every reactor, and a kernel that makes rings is one that they run
/// on: none of them skips for another reason, but what dedicated threads cannot promise.
TEST(reactor_contract_count, every_reactor_that_the_kernel_allows_runs_the_whole_contract) {
  std::map<std::string, int> tests;
  const testing::UnitTest& all = *testing::UnitTest::GetInstance();
  for (int i = 0; i < all.total_test_suite_count(); ++i) {
    const testing::TestSuite& suite = *all.GetTestSuite(i);
    const std::string name = suite.name();
    const std::size_t slash = name.find("/reactor_contract");
    if (slash != std::string::npos) tests[name.substr(0, slash)] = suite.total_test_count();
  }
  const uring_support found = probe_uring();
  std::cout << "contract:";
  for (const auto& [suite, count] : tests) std::cout << ' ' << suite << ' ' << count << " tests";
  std::cout << (found.usable ? "" : ", io_uring skipped: " + found.why) << '\n';
  EXPECT_EQ(tests.size(), 5U);
  EXPECT_GT(tests["io_uring"], 0);
  for (const auto& [suite, count] : tests) EXPECT_EQ(count, tests["io_uring"]) << suite;
  if (!found.usable && !contains(found.why, "without liburing")) {
    EXPECT_NE(kernel_refusal(), 0) << "skipped though the kernel allows io_uring: " << found.why;
  }
}

}  // namespace
}  // namespace bwos::test
