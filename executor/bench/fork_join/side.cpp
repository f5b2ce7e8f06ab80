// SPDX-License-Identifier: Apache-2.0
#include "side.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "../measure.hpp"
#include "cases.hpp"

namespace {

/// The most memory that the process has had, in KiB; getrusage(2) counts what started it, too.
long memory_peak() {
  std::FILE* const status = std::fopen("/proc/self/status", "r");
  if (status == nullptr) return 0;
  long peak = 0;
  char line[128];
  while (std::fgets(line, sizeof line, status) != nullptr) {
    if (std::sscanf(line, "VmHWM: %ld", &peak) == 1) break;
  }
  std::fclose(status);
  return peak;
}

/// What a case's time is divided by.
std::uint64_t tasks_of(const std::string& name, std::uint64_t n, std::uint64_t answer) {
  if (name == "fib") return bwos::bench::fib_calls(n);
  if (name == "uts" || name == "walk") return answer;
  if (name == "skynet") {
    std::uint64_t nodes = 1;
    for (std::uint64_t level = 1; level <= n; ++level) nodes = nodes * 10 + 1;
    return nodes;
  }
  return name == "deep" ? n : 1;
}

void measure(const bwos::bench::measured_case& each, std::uint64_t n, int repetitions) {
  each.run(n);  // its memory is there, its workers have started
  for (int i = 0; i < repetitions; ++i) {
    bwos::bench::spent_aside = {};
    const double cpu = bwos::bench::cpu_seconds();
    const double wall = bwos::bench::seconds(CLOCK_MONOTONIC);
    const std::uint64_t answer = each.run(n);
    const bwos::bench::time_aside aside = bwos::bench::spent_aside;
    const double wall_s = bwos::bench::seconds(CLOCK_MONOTONIC) - wall - aside.wall_s;
    const double cpu_s = bwos::bench::cpu_seconds() - cpu - aside.cpu_s;
    const auto tasks = static_cast<double>(tasks_of(each.name, n, answer));
    std::printf("{\"op_ns\": %.4f, \"op_cpu_ns\": %.4f, \"answer\": %llu, \"peak_rss_kib\": %ld}\n",
                wall_s * 1e9 / tasks, cpu_s * 1e9 / tasks, static_cast<unsigned long long>(answer),
                memory_peak());
  }
}

void sample(const bwos::bench::sampled_case& each, std::size_t n, int repetitions) {
  for (int i = 0; i < repetitions; ++i) {
    const std::vector<bwos::bench::samples> taken = each.take(n);
    std::printf("{\"op_ns\": %.1f", bwos::bench::quantile(taken.front().us, 0.5) * 1e3);
    for (const auto& [prefix, us, left_out] : taken) {
      if (us.size() < 2) continue;
      for (const int percent : {50, 99}) {
        std::printf(", \"%sp%d_us\": %.3f", prefix.c_str(), percent,
                    bwos::bench::quantile(us, percent / 100.0));
      }
    }
    std::printf(", \"left_out\": %zu}\n", taken.front().left_out);
  }
}

[[noreturn]] void end() {
  std::fflush(stdout);
  std::_Exit(0);  // however long the library's threads take to end
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 5 && count != 6) {
    std::fprintf(
        stderr,
        "usage: %s <flavour> <case> <n> <workers> [repetitions]\n"
        "prints a line of JSON for each repetition; questions/fork-*.toml know flavours and\n"
        "cases\n",
        arguments[0]);
    return 2;
  }
  const bool quick = bwos::bench::is_quick();
  const std::uint64_t n = std::strtoull(arguments[3], nullptr, 10);
  const auto workers = static_cast<unsigned>(std::strtoul(arguments[4], nullptr, 10));
  const int repetitions = count == 6 && !quick ? std::atoi(arguments[5]) : 1;
  for (const bwos::bench::flavour& flavour : bwos::bench::start_side(workers)) {
    if (flavour.name != arguments[1]) continue;
    for (const bwos::bench::measured_case& each : flavour.cases) {
      if (each.name != arguments[2]) continue;
      measure(each, quick ? n / 2 : n, repetitions);
      end();
    }
    for (const bwos::bench::sampled_case& each : flavour.sampled) {
      if (each.name != arguments[2]) continue;
      sample(each, quick ? std::min<std::uint64_t>(n, 5) : n, repetitions);
      end();
    }
  }
  std::fprintf(stderr, "there is no case %s of %s here\n", arguments[2], arguments[1]);
  return 3;
}
