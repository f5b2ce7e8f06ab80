// SPDX-License-Identifier: Apache-2.0
// Simulates the shipped pool under one load, and prints what came of it as a line of JSON.
#include <algorithm>
#include <charconv>
#include <cstdio>
#include <exception>
#include <iostream>
#include <stdexcept>
#include <string>
#include <vector>

#include "loads.hpp"
#include "machine.hpp"
#include "measure.hpp"
#include "scheduler/worker.hpp"
#include "simulated_pool.hpp"
#include "steal_names.hpp"

namespace bwos::simulation {
namespace {

constexpr const char* usage =
    R"(usage: pool_simulation COSTS LOAD WORKERS, and among these words NAME=VALUE...
  COSTS    a file of what things take (simulation/costs)
  LOAD     tree, chain, fan, burst (tasks posted, as by post_bench), "fib N" (as by
           fork_join_bwos invoke), open, closed (requests to the workers' reactors)
  WORKERS  1 to 1000, each on a CPU of its own
  steal=KIND      random, sequential, last-victim, best-of-two, best-of-many, topology, none
  choice=HOW      in-use, probabilistic
  amount=HOW      batch, one, half, block
  group=N         open, closed: workers that share a reactor, 1 to 64; default 4
  lengths=HOW     open, closed: even (5 us), mixed (one in 250 takes 500 us); default mixed
  skew=PERCENT    open, closed: of requests that come to the first eighth of the workers, 0 to 100
  busy=PERCENT    open: of the workers' time that the requests compute, 1 to 100; default 70
  COST=FACTOR     what that of the file is multiplied by, as in away=2
  seed=N          0 and up; default 1
  places=N        also prints, to standard error, the N lines of the sources at which workers
                  waited longest for cache lines, and the share of their time; default 0
)";

struct settings {
  costs of;
  load_settings load;
  shape pool;
  std::uint64_t seed = 1;
  unsigned places = 0;
};

unsigned number(const std::string& name, const std::string& given, unsigned least, unsigned most) {
  unsigned value = 0;
  const char* const end = given.data() + given.size();
  const auto [stopped, error] = std::from_chars(given.data(), end, value);
  if (error != std::errc() || stopped != end || value < least || value > most) {
    throw std::runtime_error(name + "=" + given + ": it must be " + std::to_string(least) + " to " +
                             std::to_string(most));
  }
  return value;
}

double factor(const std::string& name, const std::string& given) {
  double value = 0;
  const char* const end = given.data() + given.size();
  const auto [stopped, error] = std::from_chars(given.data(), end, value);
  if (error != std::errc() || stopped != end || !(value >= 0 && value <= 1000)) {
    throw std::runtime_error(name + "=" + given + ": it must be a number, 0 to 1000");
  }
  return value;
}

void read_setting(settings& to, const std::string& name, const std::string& value) {
  if (name == "steal") {
    to.pool.steal = bench::way_named<steal_kind>(value);
  } else if (name == "choice") {
    to.pool.steal_blocks = bench::way_named<steal_choice>(value);
  } else if (name == "amount") {
    to.pool.steal_takes = bench::way_named<steal_amount>(value);
  } else if (name == "group") {
    to.pool.group = number(name, value, 1, 64);
  } else if (name == "lengths") {
    if (value != "even" && value != "mixed") {
      throw std::runtime_error("lengths=" + value + ": it must be even or mixed");
    }
    to.load.how_long = value == "even" ? lengths::even : lengths::mixed;
  } else if (name == "skew") {
    to.load.skew = number(name, value, 0, 100);
  } else if (name == "busy") {
    to.load.busy = number(name, value, 1, 100);
  } else if (name == "seed") {
    to.seed = number(name, value, 0, 1'000'000'000);
  } else if (name == "places") {
    to.places = number(name, value, 0, 1'000);
  } else {
    to.of.named(name) *= factor(name, value);
  }
}

settings read(int count, char** arguments) {
  std::vector<std::string> words;
  std::vector<std::string> named;
  for (int i = 1; i < count; ++i) {
    const std::string word = arguments[i];
    (word.find('=') == std::string::npos ? words : named).push_back(word);
  }
  const bool is_fib = words.size() > 1 && words[1] == "fib";
  if (words.size() != (is_fib ? 4 : 3)) throw std::runtime_error("wanted are COSTS LOAD WORKERS");
  settings result{.of = costs::read(words[0]), .load = {.name = words[1]}, .pool = {}};
  const std::vector<std::string>& known = load_names();
  if (std::find(known.begin(), known.end(), words[1]) == known.end()) {
    throw std::runtime_error("there is no load \"" + words[1] + "\"");
  }
  if (is_fib) result.load.fib_of = number("N", words[2], 1, 40);
  result.pool.workers = number("WORKERS", words.back(), 1, 1000);
  if (bench::is_quick()) {
    result.load.fib_of /= 2;  // as fork_join/side.cpp does
    result.pool.workers = std::min(result.pool.workers, 64U);
  }
  for (const std::string& word : named) {
    const std::size_t equals = word.find('=');
    read_setting(result, word.substr(0, equals), word.substr(equals + 1));
  }
  result.pool.how = !is_served(result.load.name) ? waits::on_a_futex
                    : result.pool.group == 1     ? waits::by_itself
                                                 : waits::in_groups;
  return result;
}

void simulate(const settings& wanted) {
  machine here(wanted.seed, wanted.of);
  simulated_pool pool(here, wanted.pool);
  const outcome found = run_load(pool, here, wanted.load);
  double stolen = 0;
  double run = 0;
  double awake = 0;  // all the time that the pool was there
  for (unsigned i = 0; i < wanted.pool.workers; ++i) {
    const worker_statistics counted = pool.all.slot(i).statistics();
    const thread& each = pool.thread_of(i);
    awake += static_cast<double>(each.time - machine::began - each.waited);
    stolen += static_cast<double>(counted.steal_entries + counted.fork_steal);
    run += static_cast<double>(counted.run);
  }
  if (found.tasks == 0) throw std::runtime_error("nobody was answered while it measured");
  const auto tasks = static_cast<double>(found.tasks);
  const auto took = static_cast<double>(found.took);
  const double busy = static_cast<double>(found.busy) / 1000;
  std::printf(
      "{\"op_ns\": %.3f, \"op_cpu_ns\": %.3f, \"stolen_percent\": %.3f, \"idle_percent\": %.2f",
      took / tasks, busy / tasks, 100 * stolen / std::max(run, tasks),
      100 * (1 - busy / (took * wanted.pool.workers)));
  if (!found.waited.empty()) {
    std::printf(", \"p50_us\": %.1f, \"p99_us\": %.1f, \"p999_us\": %.1f",
                bench::quantile(found.waited, 0.5), bench::quantile(found.waited, 0.99),
                bench::quantile(found.waited, 0.999));
  }
  if (wanted.load.name == "fib") {
    std::printf(", \"answer\": %llu", static_cast<unsigned long long>(found.answer));
  }
  std::printf("}\n");
  const std::vector<machine::place> places = here.places();
  for (std::size_t i = 0; i < std::min<std::size_t>(wanted.places, places.size()); ++i) {
    std::fprintf(stderr, "%5.1f %%  %s\n", 100 * static_cast<double>(places[i].waited) / awake,
                 places[i].name.c_str());
  }
}

}  // namespace
}  // namespace bwos::simulation

int main(int count, char** arguments) {
  using namespace bwos::simulation;
  if (count == 2 && std::string(arguments[1]) == "--help") {
    std::cout << usage;
    return 0;
  }
  try {
    settings wanted = read(count, arguments);
    wanted.of = calibrated(wanted.of);
    simulate(wanted);
  } catch (const std::exception& why) {
    std::cerr << "pool_simulation: " << why.what() << " (--help says more)\n";
    return 2;
  }
  return 0;
}
