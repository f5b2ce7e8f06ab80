// SPDX-License-Identifier: Apache-2.0
// What things take, in nanoseconds: a file of lines "name = number  # where it comes from".
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace bwos::simulation {

/// Of one machine. Each is a field of the file, and none may be missing.
#define BWOS_COSTS(X)                                                         \
  X(pair, "a put and a get of the FIFO queue by its owner alone")             \
  X(chain, "a task that posts the next one, on a pool of one worker")         \
  X(fib, "a call of fib(24) by invoke(), on a pool of one worker")            \
  X(locked, "a read-modify-write, beyond a load")                             \
  X(away, "a cache line that comes from a CPU of the same cache")             \
  X(far, "one from another cache of the same node")                           \
  X(remote, "one from another node")                                          \
  X(clock, "a look at the clock")                                             \
  X(system_call, "one that finds nothing to do")                              \
  X(poll, "epoll_wait() that finds nothing and does not wait")                \
  X(membarrier, "the heavy half of an asymmetric fence")                      \
  X(wake, "waking a sleeper, for the one that wakes, beyond the system call") \
  X(wake_up, "from there until the sleeper runs")

struct costs {
#define BWOS_FIELD(name, meaning) double name = -1;
  BWOS_COSTS(BWOS_FIELD)
#undef BWOS_FIELD
  // What follows from these and the steps that the simulation counts: see calibrated().
  double hit = 0;   ///< An access to an atomic whose cache line is at hand, with what is around it.
  double run = 0;   ///< To call a task, beyond its accesses.
  double fork = 0;  ///< To fork a task and join it, beyond its accesses.

  unsigned cache_cpus = 0;  ///< CPUs that share a last-level cache,
  unsigned node_cpus = 0;   ///< and memory.

  /// Throws std::runtime_error, which says what is wrong with the file.
  static costs read(const std::string& path);
  /// One of them by its name; throws std::runtime_error where there is none.
  double& named(const std::string& name);
};

}  // namespace bwos::simulation
