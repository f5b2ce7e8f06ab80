// SPDX-License-Identifier: Apache-2.0
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <iostream>
#include <string>
#include <string_view>

#include "cases.hpp"
#include "machine.hpp"
#include "report.hpp"
#include "trace.hpp"

#ifdef BWOS_SIMULATION_ASAN
#include <sanitizer/common_interface_defs.h>
#endif

namespace bwos::simulation {
namespace {

constexpr const char* usage = R"(simulation_... CASE [OPTION...]
  --seeds=COUNT      how many seeds, from 1 on (default: $BWOS_SIMULATION_SEEDS, else 2000)
  --seed=N           that one alone
  --trace[=STEPS]    print the last steps before a failure (default 300)
  --must-fail=CHECK  succeed if one of the seeds fails this check, or one whose name begins so;
                     fail if none does
)";

struct command_line {
  const char* program = "";
  const test_case* chosen = nullptr;
  std::uint64_t first = 1;
  std::uint64_t count = 2000;
  std::string must_fail;
};
command_line asked;

std::uint64_t number(std::string_view from) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(from.data(), from.data() + from.size(), value);
  if (error != std::errc() || end != from.data() + from.size()) {
    std::cerr << "not a number: " << from << '\n' << usage;
    std::exit(2);
  }
  return value;
}

void read_option(std::string_view option) {
  const std::size_t equals = option.find('=');
  const std::string_view name = option.substr(0, equals);
  const std::string_view value =
      equals == std::string_view::npos ? std::string_view() : option.substr(equals + 1);
  if (name == "--seeds") {
    asked.count = number(value);
  } else if (name == "--seed") {
    asked.first = number(value);
    asked.count = 1;
  } else if (name == "--trace") {
    trace::keep(value.empty() ? 300 : number(value));
  } else if (name == "--must-fail") {
    asked.must_fail = value;
  } else {
    std::cerr << "unknown: " << option << '\n' << usage;
    std::exit(2);
  }
}

void read_command_line(int count, char** arguments) {
  if (count > 0) asked.program = arguments[0];
  if (const char* const seeds = std::getenv("BWOS_SIMULATION_SEEDS")) asked.count = number(seeds);
  for (const test_case& each : cases()) {
    if (count > 1 && std::string_view(arguments[1]) == each.name) asked.chosen = &each;
  }
  if (asked.chosen == nullptr) {
    std::cerr << usage;
    for (const test_case& each : cases()) std::cerr << each.name << ": " << each.about << '\n';
    std::exit(2);
  }
  for (int i = 2; i < count; ++i) read_option(arguments[i]);
}

/// A check of the library's own has failed, or memory was misused.
void on_crash(int) {
  machine* const here = machine::current();
  if (here != nullptr) here->fail("no_crash", "the program has received a signal");
  std::_Exit(1);
}

/// Runs one seed; returns its steps.
std::uint64_t run_seed(std::uint64_t seed, bool twice) {
  machine here(seed);
  asked.chosen->run(here);
  if (!twice) return here.steps();
  machine again(seed);
  asked.chosen->run(again);
  expect(here.checksum() == again.checksum() && here.now() == again.now(), "same_schedule",
         "the same seed has given two schedules, one of ", here.steps(), " steps, one of ",
         again.steps());
  return here.steps();
}

#ifdef BWOS_SIMULATION_ASAN
void watch_for_crashes() {
  std::signal(SIGABRT, on_crash);
  __sanitizer_set_death_callback([] {
    const machine* const here = machine::current();
    if (here != nullptr) std::cout << "in the schedule of seed " << here->seed << std::endl;
  });
}
#else
void watch_for_crashes() {
  std::signal(SIGABRT, on_crash);
  std::signal(SIGSEGV, on_crash);
}
#endif

void run_seeds() {
  const auto begun = std::chrono::steady_clock::now();
  std::uint64_t steps = 0;
  for (std::uint64_t i = 0; i < asked.count; ++i) {
    steps += run_seed(asked.first + i, i % 100 == 0);
  }
  const std::chrono::duration<double> lasted = std::chrono::steady_clock::now() - begun;
  std::cout << asked.chosen->name << ": " << asked.count << " seeds, " << steps << " steps, "
            << lasted.count() << " s\n";
}

}  // namespace

void end_with_failure(const std::string& check, std::uint64_t seed) {
  const bool expected = !asked.must_fail.empty() && check.starts_with(asked.must_fail);
  std::cout << "replay: " << asked.program << ' ' << asked.chosen->name << " --seed=" << seed
            << " --trace\n";
  if (expected) std::cout << "as expected: this was to be found\n";
  std::cout.flush();
  std::_Exit(expected ? 0 : 1);
}

}  // namespace bwos::simulation

int main(int count, char** arguments) {
  using namespace bwos::simulation;
  read_command_line(count, arguments);
  watch_for_crashes();
  run_seeds();
  if (asked.must_fail.empty()) return 0;
  std::cout << "FAILED: no seed fails " << asked.must_fail << '\n';
  return 1;
}
