// SPDX-License-Identifier: Apache-2.0
// One side of the questions `fork-*`: a program that runs a case on one library and prints lines of
// JSON.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace bwos::bench {

/// What the program measures, and prints a line for each repetition of.
struct measured_case {
  std::string name;                                   ///< As the question knows it.
  std::function<std::uint64_t(std::uint64_t n)> run;  ///< The answer.
};

/// Times that a case has measured itself.
struct samples {
  std::string prefix;  ///< As in late_p99_us; nothing for what the case is about.
  std::vector<double> us;
  std::size_t left_out = 0;  ///< More were taken while the hypervisor ran others: not among them.
};
struct sampled_case {
  std::string name;                                         ///< As the question knows it.
  std::function<std::vector<samples>(std::size_t n)> take;  ///< So many, of what it is about first.
};

/// The library's workers are ready when this returns, or by the first case; they end with the
/// program. The name of the flavour follows the side's name: "bwos invoke".
struct flavour {
  std::string name;
  std::vector<measured_case> cases;
  std::vector<sampled_case> sampled = {};
};
std::vector<flavour> start_side(unsigned workers);

}  // namespace bwos::bench
