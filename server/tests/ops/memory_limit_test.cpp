// SPDX-License-Identifier: Apache-2.0
#include "ops/memory_limit.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <string>

namespace bwos::server {
namespace {

namespace fs = std::filesystem;

/// Files as a machine has them below /, which go with the test.
class memory_limit_of : public testing::Test {
 protected:
  memory_limit_of()
      : root_(fs::path(testing::TempDir()) / ("bwos_memory_limit." + std::to_string(::getpid()))) {
    fs::create_directories(root_);
  }
  ~memory_limit_of() override { fs::remove_all(root_); }

  void has(const std::string& file, const std::string& text) const {
    fs::create_directories((root_ / file).parent_path());
    std::ofstream(root_ / file) << text;
  }
  void has_meminfo() const {
    has("proc/meminfo",
        "MemFree:         1024 kB\nMemTotal:       16384 kB\nMemAvailable:    9000 kB\n");
  }
  /// What is found, and where: below the root.
  void expect(std::size_t bytes, const std::string& source) const {
    const memory_limit found = find_memory_limit(root_);
    EXPECT_EQ(found.bytes, bytes);
    EXPECT_EQ(found.source, source.starts_with("sys/") ? (root_ / source).string() : source);
  }

 private:
  const fs::path root_;
};

constexpr std::size_t machines = 16384 * 1024;

TEST_F(memory_limit_of, a_machine_without_cgroups_is_its_memory) {
  has_meminfo();
  expect(machines, "MemTotal");
}

TEST_F(memory_limit_of, v2_is_the_smallest_of_its_cgroup_and_those_above) {
  has_meminfo();
  has("proc/self/cgroup", "0::/system.slice/a.service/inner\n");
  has("sys/fs/cgroup/system.slice/a.service/inner/memory.max", "9000000\n");
  expect(9'000'000, "sys/fs/cgroup/system.slice/a.service/inner/memory.max");
  has("sys/fs/cgroup/system.slice/a.service/memory.max", "8000000\n");
  expect(8'000'000, "sys/fs/cgroup/system.slice/a.service/memory.max");
  has("sys/fs/cgroup/system.slice/memory.max", "8000001\n");
  expect(8'000'000, "sys/fs/cgroup/system.slice/a.service/memory.max");
  has("sys/fs/cgroup/system.slice/memory.max", "7000000\n");
  expect(7'000'000, "sys/fs/cgroup/system.slice/memory.max");
  has("sys/fs/cgroup/memory.max", "6000000\n");  // as in a container, whose root is a cgroup
  expect(6'000'000, "sys/fs/cgroup/memory.max");
}

TEST_F(memory_limit_of, v2_above_the_machines_memory_bounds_nothing) {
  has_meminfo();
  has("proc/self/cgroup", "0::/a\n");
  has("sys/fs/cgroup/a/memory.max", "99999999999\n");
  expect(machines, "MemTotal");
}

TEST_F(memory_limit_of, v2_max_is_no_limit_there) {
  has_meminfo();
  has("proc/self/cgroup", "0::/a/b\n");
  has("sys/fs/cgroup/a/b/memory.max", "max\n");
  expect(machines, "MemTotal");
  has("sys/fs/cgroup/a/memory.max", "5000000\n");
  expect(5'000'000, "sys/fs/cgroup/a/memory.max");
}

TEST_F(memory_limit_of, v2_without_the_file_has_no_limit_there) {
  has_meminfo();
  has("proc/self/cgroup", "0::/\n");
  has("sys/fs/cgroup/cgroup.procs", "1\n");
  expect(machines, "MemTotal");
}

TEST_F(memory_limit_of, a_path_that_is_not_below_the_mount_is_the_mounts_root) {
  has_meminfo();
  has("sys/fs/cgroup/memory.max", "4000000\n");
  has("memory.max", "1\n");  // what ".." would lead to
  has("sys/fs/memory.max", "1\n");
  for (const char* path : {"/docker/0123", "/../../other", "/.."}) {
    has("proc/self/cgroup", std::string("0::") + path + "\n");
    expect(4'000'000, "sys/fs/cgroup/memory.max");
  }
}

TEST_F(memory_limit_of, v1_is_the_memory_controllers) {
  has_meminfo();
  has("proc/self/cgroup", "3:cpu,cpuacct:/other\n2:hugetlb,memory:/a/b\n1:memoryless:/c\n");
  has("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  has("sys/fs/cgroup/memory/a/b/memory.limit_in_bytes", "3000000\n");
  has("sys/fs/cgroup/memory/other/memory.limit_in_bytes", "1\n");
  has("sys/fs/cgroup/memory/c/memory.limit_in_bytes", "1\n");
  expect(3'000'000, "sys/fs/cgroup/memory/a/b/memory.limit_in_bytes");
  has("sys/fs/cgroup/memory/a/memory.limit_in_bytes", "2000000\n");
  expect(2'000'000, "sys/fs/cgroup/memory/a/memory.limit_in_bytes");
}

TEST_F(memory_limit_of, v1_in_a_container_is_the_mounts_root) {
  has_meminfo();
  has("proc/self/cgroup", "2:memory:/docker/0123\n");
  has("sys/fs/cgroup/memory/memory.limit_in_bytes", "2500000\n");
  expect(2'500'000, "sys/fs/cgroup/memory/memory.limit_in_bytes");
}

TEST_F(memory_limit_of, v1_without_a_limit_has_a_huge_number) {
  has("proc/self/cgroup", "2:memory:/a\n");
  for (const char* none : {"9223372036854771712\n", "9223372036854710272\n", "-1\n", "\n"}) {
    has("sys/fs/cgroup/memory/a/memory.limit_in_bytes", none);
    has_meminfo();
    expect(machines, "MemTotal");
  }
}

TEST_F(memory_limit_of, both_versions_at_once_is_the_smaller) {
  has_meminfo();
  has("proc/self/cgroup", "5:memory:/a\n0::/b\n");
  has("sys/fs/cgroup/memory/a/memory.limit_in_bytes", "2000000\n");
  has("sys/fs/cgroup/unified/b/cgroup.procs", "1\n");
  expect(2'000'000, "sys/fs/cgroup/memory/a/memory.limit_in_bytes");
  has("sys/fs/cgroup/b/memory.max", "1000000\n");
  expect(1'000'000, "sys/fs/cgroup/b/memory.max");
}

TEST_F(memory_limit_of, where_nothing_can_be_read_the_kernel_is_asked) {
  expect(static_cast<std::size_t>(::sysconf(_SC_PHYS_PAGES)) *
             static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)),
         "sysinfo(2), as /proc/meminfo cannot be read");
  has("proc/meminfo", "MemTotal: much\n");
  has("proc/self/cgroup", "nonsense\n::\n0:\n\n");
  EXPECT_TRUE(find_memory_limit("/nowhere").source.starts_with("sysinfo(2)"));
  EXPECT_GT(find_memory_limit().bytes, 0U);
}

}  // namespace
}  // namespace bwos::server
