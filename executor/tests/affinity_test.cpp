// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/syscall.h>

#include <algorithm>
#include <bwos/pool.hpp>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <string>
#include <system_error>
#include <vector>

#include "forbidden_call.hpp"

namespace bwos {
namespace {

options pinned(unsigned workers) {
  options result;
  result.workers = workers;
  result.pin = true;
  return result;
}

std::vector<unsigned> cpus_of(pid_t thread) {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  EXPECT_EQ(::sched_getaffinity(thread, sizeof mask, &mask), 0);
  std::vector<unsigned> result;
  for (unsigned cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &mask)) result.push_back(cpu);
  }
  return result;
}

/// Of each worker, by its thread's name.
std::map<std::string, std::vector<unsigned>> cpus_of_workers() {
  std::map<std::string, std::vector<unsigned>> result;
  for (const auto& thread : std::filesystem::directory_iterator("/proc/self/task")) {
    std::string name;
    std::ifstream(thread.path() / "comm") >> name;
    if (!name.starts_with("bwos-")) continue;
    result[name] = cpus_of(static_cast<pid_t>(std::stoi(thread.path().filename())));
  }
  return result;
}

TEST(affinity, pinned_workers_go_round_the_cpus) {
  const std::vector<unsigned> all = cpus_of(0);
  const auto cpus = static_cast<unsigned>(all.size());
  const unsigned workers = std::min(cpus + 1, options::workers_max);
  const pool under_test(pinned(workers));
  const auto found = cpus_of_workers();
  for (unsigned i = 0; i < workers; ++i) {
    EXPECT_EQ(found.at("bwos-" + std::to_string(i)), std::vector{all[i % cpus]}) << i;
  }
}

TEST(affinity, workers_that_are_not_pinned_keep_every_cpu) {
  options loose = pinned(2);
  loose.pin = false;
  const pool under_test(loose);
  const auto found = cpus_of_workers();
  for (const char* name : {"bwos-0", "bwos-1"}) EXPECT_EQ(found.at(name), cpus_of(0)) << name;
}

TEST(affinity_death, a_kernel_that_refuses_to_pin_is_named) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(
      {
        if (!test::forbid_call(SYS_sched_setaffinity)) std::exit(2);
        try {
          const pool under_test(pinned(2));
        } catch (const std::system_error& error) {
          std::cerr << error.what() << '\n';
          std::exit(error.code().value() == EPERM ? 0 : 3);
        }
        std::exit(4);
      },
      ::testing::ExitedWithCode(0), "options.pin: a worker to CPU [0-9]+: Operation not permitted");
}

}  // namespace
}  // namespace bwos
