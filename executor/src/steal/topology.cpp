// SPDX-License-Identifier: Apache-2.0
#include "steal/topology.hpp"

#include <sched.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string_view>

namespace bwos {
namespace {

namespace fs = std::filesystem;

constexpr unsigned cpus_max = 8192;

/// The number at the beginning of `text`, which loses it.
std::optional<unsigned> take_number(std::string_view& text) {
  unsigned value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{}) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return value;
}

/// Whether `text` begins with that character, which it loses.
bool take(std::string_view& text, char expected) {
  if (text.empty() || text.front() != expected) return false;
  text.remove_prefix(1);
  return true;
}

/// The first line of a file; empty where there is none.
std::string line_of(const fs::path& file) {
  std::ifstream from(file);
  std::string line;
  std::getline(from, line);
  return line;
}

/// The N of all `prefix`N in a folder, in order.
std::vector<unsigned> numbered_in(const fs::path& folder, std::string_view prefix) {
  std::vector<unsigned> numbers;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    const std::string name = at->path().filename().string();
    std::string_view rest = name;
    if (rest.substr(0, prefix.size()) != prefix) continue;
    rest.remove_prefix(prefix.size());
    const std::optional<unsigned> number = take_number(rest);
    if (number && rest.empty() && *number < cpus_max) numbers.push_back(*number);
  }
  std::sort(numbers.begin(), numbers.end());
  return numbers;
}

/// The CPUs that share a CPU's last level of cache for data.
std::vector<unsigned> last_cache_of(const fs::path& cpu) {
  fs::path last;
  unsigned highest = 0;
  for (const unsigned index : numbered_in(cpu / "cache", "index")) {
    const fs::path cache = cpu / "cache" / ("index" + std::to_string(index));
    const std::string text = line_of(cache / "level");
    std::string_view rest = text;
    const unsigned level = take_number(rest).value_or(0);
    if (level <= highest || line_of(cache / "type") == "Instruction") continue;
    highest = level;
    last = cache;
  }
  return highest == 0 ? std::vector<unsigned>() : parse_cpu_list(line_of(last / "shared_cpu_list"));
}

}  // namespace

std::vector<unsigned> parse_cpu_list(const std::string& text) {
  std::vector<unsigned> cpus;
  std::string_view rest = text;
  while (!rest.empty()) {  // ends: each turn takes a number off, or returns
    const std::optional<unsigned> first = take_number(rest);
    const std::optional<unsigned> last = take(rest, '-') ? take_number(rest) : first;
    if (!first || !last || *first > *last || *last >= cpus_max) return {};
    for (unsigned cpu = *first; cpu <= *last; ++cpu) cpus.push_back(cpu);
    const bool more = take(rest, ',');
    if (more == rest.empty()) return {};
  }
  return cpus;
}

unsigned current_cpu() noexcept {
  const int cpu = ::sched_getcpu();
  return cpu < 0 ? ~0U : static_cast<unsigned>(cpu);
}

/// Who is named in the list of one CPU is not asked again, so that a machine of hundreds of CPUs is
/// read in few files.
topology topology::read(const std::string& root) {
  topology result;
  const fs::path cpus = fs::path(root) / "cpu";
  const std::vector<unsigned> all = numbered_in(cpus, "cpu");
  if (all.empty()) return result;
  result.places_.resize(all.back() + 1);
  for (const unsigned cpu : all) {
    const fs::path folder = cpus / ("cpu" + std::to_string(cpu));
    if (result.places_[cpu].core == unknown) {
      const std::string siblings = line_of(folder / "topology" / "thread_siblings_list");
      result.group(&place::core, cpu, parse_cpu_list(siblings));
    }
    if (result.places_[cpu].cache == unknown) {
      result.group(&place::cache, cpu, last_cache_of(folder));
    }
  }
  const fs::path nodes = fs::path(root) / "node";
  for (const unsigned node : numbered_in(nodes, "node")) {
    const std::string list = line_of(nodes / ("node" + std::to_string(node)) / "cpulist");
    const std::vector<unsigned> members = parse_cpu_list(list);
    if (!members.empty()) result.group(&place::node, members.front(), members);
  }
  return result;
}

void topology::group(unsigned place::* kind, unsigned cpu, const std::vector<unsigned>& list) {
  if (std::find(list.begin(), list.end(), cpu) == list.end()) return;
  for (const unsigned member : list) {
    if (member < places_.size() && places_[member].*kind == unknown) {
      places_[member].*kind = list.front();
    }
  }
}

proximity topology::between(unsigned one, unsigned other) const noexcept {
  if (one >= places_.size() || other >= places_.size()) return proximity::machine;
  const place& a = places_[one];
  const place& b = places_[other];
  if (one == other || (a.core != unknown && a.core == b.core)) return proximity::core;
  if (a.cache != unknown && a.cache == b.cache) return proximity::cache;
  if (a.node != unknown && a.node == b.node) return proximity::node;
  return proximity::machine;
}

}  // namespace bwos
