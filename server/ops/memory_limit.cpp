// SPDX-License-Identifier: Apache-2.0
#include "ops/memory_limit.hpp"

#include <sys/sysinfo.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <optional>
#include <string_view>
#include <utility>

#include "base/units.hpp"

namespace bwos::server {
namespace {

namespace fs = std::filesystem;

/// Where nothing at all can be read. A guess: what a small container has.
constexpr std::size_t guess_bytes = std::size_t{512} << 20;
/// cgroup v1 says "no limit" by the largest number of pages, which is near 2^63 bytes whatever the
/// size of a page; no machine has as much as this.
constexpr std::uint64_t no_limit = std::uint64_t{1} << 62;

/// Nothing: there is no such file, or it says "max", which is no limit.
std::optional<std::uint64_t> limit_in(const fs::path& file) {
  std::ifstream text(file);
  std::string word;
  if (!(text >> word)) return std::nullopt;
  const std::optional<std::uint64_t> value = parse_number(word);
  return value && *value < no_limit ? value : std::nullopt;
}

/// Whether `name` is one of "cpu,cpuacct".
bool lists(std::string_view controllers, std::string_view name) {
  while (!controllers.empty()) {
    const std::size_t end = controllers.find(',');
    if (controllers.substr(0, end) == name) return true;
    if (end == std::string_view::npos) break;
    controllers.remove_prefix(end + 1);
  }
  return false;
}

class smallest {
 public:
  explicit smallest(memory_limit first) : found_(std::move(first)) {}

  void offer(std::uint64_t bytes, std::string source) {
    if (bytes < found_.bytes) found_ = {.bytes = bytes, .source = std::move(source)};
  }

  /// `file` of the cgroup `path` ("/a/b") below `mount`, of "/a", and of the mount's root. A
  /// container sees its own cgroup as that root, and often not the folders that its path names. A
  /// path with ".." is that of a process outside of what is mounted here.
  void offer_cgroups(const fs::path& mount, const std::string& path, const char* file) {
    fs::path below = fs::path(path).relative_path();
    if (std::find(below.begin(), below.end(), "..") != below.end()) below.clear();
    for (;; below = below.parent_path()) {  // ends: each is shorter
      const fs::path at = below.empty() ? mount / file : mount / below / file;
      if (const auto limit = limit_in(at)) offer(*limit, at.string());
      if (below.empty()) return;
    }
  }

  [[nodiscard]] memory_limit take() { return std::move(found_); }

 private:
  memory_limit found_;
};

std::optional<std::uint64_t> memory_total(const fs::path& root) {
  std::ifstream text(root / "proc/meminfo");
  std::uint64_t kib = 0;
  for (std::string name; text >> name;) {
    if (name == "MemTotal:") return text >> kib ? std::optional(kib * 1024) : std::nullopt;
    std::getline(text, name);
  }
  return std::nullopt;
}

memory_limit of_machine(const fs::path& root) {
  if (const auto total = memory_total(root)) return {.bytes = *total, .source = "MemTotal"};
  // As under ProcSubset=pid, which leaves no /proc/meminfo.
  struct sysinfo said{};
  if (::sysinfo(&said) == 0) {
    return {.bytes = std::size_t{said.totalram} * said.mem_unit,
            .source = "sysinfo(2), as /proc/meminfo cannot be read"};
  }
  return {.bytes = guess_bytes, .source = "a guess, as neither /proc/meminfo nor sysinfo(2) says"};
}

}  // namespace

memory_limit find_memory_limit(const fs::path& root) {
  smallest found(of_machine(root));
  std::ifstream text(root / "proc/self/cgroup");
  const fs::path mounts = root / "sys/fs/cgroup";
  for (std::string line; std::getline(text, line);) {  // "4:cpu,memory:/a/b", of v2 "0::/a/b"
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string_view controllers =
        std::string_view(line).substr(first + 1, second - first - 1);
    const std::string path = line.substr(second + 1);
    if (line.starts_with("0::")) found.offer_cgroups(mounts, path, "memory.max");
    if (lists(controllers, "memory")) {
      found.offer_cgroups(mounts / "memory", path, "memory.limit_in_bytes");
    }
  }
  return found.take();
}

}  // namespace bwos::server
