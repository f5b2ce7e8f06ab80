// SPDX-License-Identifier: Apache-2.0
// What a simulated pool is given to do, and what comes of it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "simulated_pool.hpp"

namespace bwos::simulation {

/// How long a task of a served load computes.
enum class lengths : std::uint8_t {
  even,   ///< Exponential, 5 us on average.
  mixed,  ///< The same, but one in 250 takes 500 us.
};

struct load_settings {
  std::string name;
  unsigned fib_of = 24;
  lengths how_long = lengths::mixed;
  unsigned skew = 0;   ///< % of requests that arrive at the first eighth of the workers.
  unsigned busy = 70;  ///< `open`: % of the workers' time that the requests compute.
};

struct outcome {
  std::uint64_t tasks = 0;          ///< That ended
  nanoseconds took = 0;             ///< in a time, from the first one on, or behind a warm-up,
  picoseconds busy = 0;             ///< in which so much of the workers' time was not idle.
  std::uint64_t answer = 0;         ///< `fib`: the number,
  nanoseconds within = 0;           ///< and how long the task took that computes it.
  std::vector<double> waited = {};  ///< `open` and `closed`: us from arrival until done.
};

/// The loads by their names: those of the question `post` (tree, chain, fan, burst), `fib` by
/// invoke(), and `open` and `closed`, requests that arrive at the workers' reactors.
[[nodiscard]] const std::vector<std::string>& load_names();
[[nodiscard]] bool is_served(const std::string& load);

/// Runs it to its end, and stops the pool.
outcome run_load(simulated_pool& pool, machine& here, const load_settings& wanted);

/// The costs `of` with `hit`, `run` and `fork` such that a simulated pair, chain and fib take what
/// was measured with one worker.
costs calibrated(costs of);

}  // namespace bwos::simulation
