// SPDX-License-Identifier: Apache-2.0
#include "pool/affinity.hpp"

#include <sched.h>

#include <algorithm>
#include <bwos/options.hpp>
#include <cerrno>
#include <cmath>
#include <fstream>
#include <string>
#include <system_error>

namespace bwos {
namespace {

unsigned cpus_allowed(cpu_set_t& mask) noexcept {
  CPU_ZERO(&mask);
  if (::sched_getaffinity(0, sizeof mask, &mask) != 0) return 0;
  return static_cast<unsigned>(CPU_COUNT(&mask));
}

/// The tightest cpu.max of this process's cgroup and those above it (cgroup v2), in CPUs; infinite
/// without a limit.
double cgroup_cpus() {
  std::ifstream membership("/proc/self/cgroup");
  std::string line;
  double least = INFINITY;
  while (std::getline(membership, line)) {
    if (line.rfind("0::", 0) != 0) continue;
    for (std::string path = line.substr(3);;) {  // ends: the path gets shorter
      std::ifstream limit("/sys/fs/cgroup" + path + "/cpu.max");
      double quota = 0;
      double period = 0;
      if (limit >> quota >> period && period > 0) least = std::min(least, quota / period);
      const std::size_t slash = path.rfind('/');
      if (path.empty() || slash == std::string::npos) break;
      path.erase(slash);
    }
  }
  return least;
}

}  // namespace

void pin_thread(pthread_t thread, unsigned index) {
  cpu_set_t mask;
  const unsigned cpus = cpus_allowed(mask);
  if (cpus == 0) {
    throw std::system_error(errno, std::generic_category(),
                            "options.pin: cannot ask which CPUs there are (1024 at most)");
  }
  unsigned skip = index % cpus;
  std::size_t cpu = 0;
  while (!CPU_ISSET(cpu, &mask) || skip-- != 0) ++cpu;  // ends: `cpus` are set
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(cpu, &one);
  if (const int error = ::pthread_setaffinity_np(thread, sizeof one, &one); error != 0) {
    throw std::system_error(error, std::generic_category(),
                            "options.pin: a worker to CPU " + std::to_string(cpu));
  }
}

unsigned default_workers() noexcept {
  cpu_set_t mask;
  const unsigned cpus = std::clamp(cpus_allowed(mask), 1U, options::workers_max);
  try {
    const double limit = std::ceil(cgroup_cpus());
    return limit < cpus ? std::max(1U, static_cast<unsigned>(limit)) : cpus;
  } catch (...) {  // no memory to read a file with
    return cpus;
  }
}

}  // namespace bwos
