// SPDX-License-Identifier: Apache-2.0
// What programs of several benchmarks share: one of them is chosen by words, as run.py does, and
// prints the metrics that the questions are about.
#pragma once

#include <benchmark/benchmark.h>

#include <cstddef>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "measure.hpp"

namespace bwos::bench {

/// A counter of nanoseconds an operation: the benchmark's time through `operations`.
inline benchmark::Counter ns_per(std::size_t operations) {
  return {static_cast<double>(operations) * 1e-9,
          benchmark::Counter::kIsRate | benchmark::Counter::kInvert};
}

/// main()'s end. With words in front, as "fifo_128x64 thief 32 20", it runs the one benchmark of
/// that name (fifo_128x64/thief/32/20) three times, and prints JSON; else what Google Benchmark's
/// own flags say.
inline int run_benchmarks(int count, char** arguments) {
  std::string name;
  int flags = 1;
  for (; flags < count && arguments[flags][0] != '-'; ++flags) {
    if (!name.empty()) name += '/';
    name += arguments[flags];
  }
  std::vector<std::string> texts{arguments[0]};
  if (!name.empty()) {
    const bool quick = is_quick();
    std::string filter = "--benchmark_filter=^";
    filter.append(name).append("(/real_time|/manual_time|/iterations:[0-9]+)*$");
    texts.push_back(std::move(filter));
    texts.emplace_back("--benchmark_format=json");
    texts.emplace_back(quick ? "--benchmark_repetitions=1" : "--benchmark_repetitions=3");
    texts.emplace_back(quick ? "--benchmark_min_time=0.001" : "--benchmark_min_time=0.05");
  }
  texts.insert(texts.end(), arguments + flags, arguments + count);
  std::vector<char*> all;
  for (std::string& each : texts) all.push_back(each.data());
  int left = static_cast<int>(all.size());
  all.push_back(nullptr);
  benchmark::Initialize(&left, all.data());
  if (benchmark::ReportUnrecognizedArguments(left, all.data())) return 2;
  if (benchmark::RunSpecifiedBenchmarks() == 0) {
    std::fprintf(stderr, "there is no benchmark %s here\n", name.c_str());
    return 3;
  }
  benchmark::Shutdown();
  return 0;
}

}  // namespace bwos::bench
