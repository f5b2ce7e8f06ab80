// SPDX-License-Identifier: Apache-2.0
// What is decoded in the same way on every side of the question `json` (json_bench.cpp,
// json_tbb_bench.cpp): documents of about a microsecond each, in batches. Each document is a task,
// all of a batch are spawned by one task, and a batch begins when the one before it has ended.
//
// op_ns is the time of one document. Making the workers is left out.
#pragma once

#include <benchmark/benchmark.h>
#include <simdjson.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "named_bench.hpp"

namespace bwos::bench {

inline constexpr std::size_t batch_size = 256;
inline const std::size_t batch_count = is_quick() ? 8 : 256;

/// An order of `lines` items, as a shop's front end may send it.
struct document {
  explicit document(std::uint64_t lines) {
    std::string text =
        R"({"customer": {"name": "Ada Lovelace", "address": "12 St James's Square"},)"
        R"( "express": true, "lines": [)";
    for (std::uint64_t i = 0; i < lines; ++i) {
      const std::uint64_t cents = 100 + 37 * i;
      if (i != 0) text += ", ";
      text += R"({"title": "Sketch of the Analytical Engine", "count": 2, "cents": )" +
              std::to_string(cents) + "}";
      total += 2 * cents;
    }
    json = simdjson::padded_string(text + "]}");
  }
  simdjson::padded_string json;
  std::uint64_t total = 0;
};

inline std::uint64_t total_of(const document& each) {
  thread_local simdjson::dom::parser parser;
  std::uint64_t total = 0;
  for (const simdjson::dom::element line : parser.parse(each.json)["lines"].get_array()) {
    total += line["count"].get_uint64().value() * line["cents"].get_uint64().value();
  }
  return total;
}

/// The documents of one batch, of several lengths.
class documents {
 public:
  documents() {
    for (std::size_t i = 0; i < batch_size; ++i) all_.emplace_back(12 + i % 16);
  }
  void decode(std::size_t index) {
    if (total_of(all_[index]) != all_[index].total) wrong_.store(true);
  }
  [[nodiscard]] bool any_was_wrong() const { return wrong_.load(); }

 private:
  std::vector<document> all_;
  std::atomic<bool> wrong_{false};
};

/// Range: workers. Side(workers, documents): decode(n), n batches.
template <class Side>
void decode(benchmark::State& state) {
  documents all;
  Side side(static_cast<unsigned>(state.range(0)), all);
  side.decode(batch_count);  // the workers have started, and their parsers have memory
  double cpu_s = 0;
  for (auto _ : state) {
    const double cpu_before = cpu_seconds();
    const auto start = std::chrono::steady_clock::now();
    side.decode(batch_count);
    const auto took = std::chrono::steady_clock::now() - start;
    state.SetIterationTime(std::chrono::duration<double>(took).count());
    cpu_s += cpu_seconds() - cpu_before;
  }
  if (all.any_was_wrong()) state.SkipWithError("a document came to another total");
  const std::size_t decoded =
      static_cast<std::size_t>(state.iterations()) * batch_count * batch_size;
  state.counters["op_ns"] = ns_per(decoded);
  state.counters["op_cpu_ns"] = cpu_s * 1e9 / static_cast<double>(decoded);
}

template <class Side>
void register_side(const std::string& name) {
  benchmark::RegisterBenchmark((name + "/decode").c_str(), &decode<Side>)
      ->ArgsProduct({{1, 2, 4, 8, 16}})
      ->UseManualTime()
      ->Unit(benchmark::kMillisecond);
}

/// A task that spawns each document of a batch in `Group` and waits for them, for each batch.
template <class Group>
void decode_in(Group& group, std::size_t batches, documents& all) {
  for (std::size_t i = 0; i < batches; ++i) {
    for (std::size_t each = 0; each < batch_size; ++each) {
      group.run([&all, each] { all.decode(each); });
    }
    group.wait();
  }
}

}  // namespace bwos::bench
