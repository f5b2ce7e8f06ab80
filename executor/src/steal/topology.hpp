// SPDX-License-Identifier: Apache-2.0
// How near the CPUs of the machine are to each other, as the kernel tells it, and where workers
// are. Test: topology_test.cpp
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace bwos {

/// What two CPUs have in common, the nearest first.
enum class proximity : std::uint8_t {
  core,     ///< SMT siblings, or the same CPU.
  cache,    ///< The last level of cache.
  node,     ///< Memory: a NUMA node.
  machine,  ///< Nothing, as far as is known.
};
inline constexpr unsigned proximity_kinds = 4;

/// The CPU numbers of a list as the kernel writes it, such as "0-3,8,10-11"; empty where the text
/// is none, or names a CPU beyond 8191, the most that Linux can be built for.
[[nodiscard]] std::vector<unsigned> parse_cpu_list(const std::string& text);

/// The CPU that the calling thread is on; ~0U: the kernel does not say.
[[nodiscard]] unsigned current_cpu() noexcept;

/// What is not known is left out, and no error: CPUs of which nothing is known are equally far from
/// all others. Immutable once read.
class topology {
 public:
  topology() = default;
  /// Reads what sysfs says now. `root`: where it is, for tests, which read recorded trees.
  [[nodiscard]] static topology read(const std::string& root = "/sys/devices/system");

  [[nodiscard]] proximity between(unsigned one, unsigned other) const noexcept;

 private:
  static constexpr unsigned unknown = ~0U;
  /// What a CPU is part of, each named by the lowest CPU of it.
  struct place {
    unsigned core = unknown;
    unsigned cache = unknown;
    unsigned node = unknown;
  };
  /// Those of `list` that are in no such group yet are in one now, if `cpu` is in the list.
  void group(unsigned place::* kind, unsigned cpu, const std::vector<unsigned>& list);

  std::vector<place> places_;  // by CPU
};

/// Where the workers of a pool are: the CPU that each was built on, which is its own where it is
/// pinned. One that is not may have moved since; then it steals from a bit further away, and no
/// more than that.
class worker_places {
 public:
  /// `workers`: as many as there can ever be.
  worker_places(topology machine, std::size_t workers)
      : machine_(std::move(machine)), cpu_of_(workers, ~0U) {}

  /// Before others know of that worker.
  void put(unsigned worker, unsigned cpu) noexcept { cpu_of_[worker] = cpu; }
  [[nodiscard]] proximity between(unsigned one, unsigned other) const noexcept {
    return machine_.between(cpu_of_[one], cpu_of_[other]);
  }
  [[nodiscard]] std::size_t workers_max() const noexcept { return cpu_of_.size(); }

 private:
  const topology machine_;
  std::vector<unsigned> cpu_of_;
};

}  // namespace bwos
