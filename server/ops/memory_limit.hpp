// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>

namespace bwos::server {

/// How much memory this process may use, and who says so: a file, "MemTotal", or a word about what
/// stands in for them.
struct memory_limit {
  std::size_t bytes = 0;
  std::string source;
};

/// The smallest of what bounds this process: memory.max (cgroup v2) and memory.limit_in_bytes (v1)
/// of its cgroup and of each one above, and the machine's memory. As it is now: whoever sets a
/// cgroup's limit may change it. `root`: where /proc and /sys are. Throws std::bad_alloc.
[[nodiscard]] memory_limit find_memory_limit(const std::filesystem::path& root = "/");

}  // namespace bwos::server
