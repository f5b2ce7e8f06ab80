// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <sstream>
#include <string>
#include <vector>

#include "machine.hpp"

namespace bwos::simulation {

/// What is simulated under many seeds: `run` lets one machine run to its end.
struct test_case {
  const char* name;
  const char* about;
  void (*run)(machine& here);
};

inline std::vector<test_case>& cases() {
  static std::vector<test_case> all;
  return all;
}

/// At namespace scope: adds a case.
struct registered {
  registered(const char* name, const char* about, void (*run)(machine&)) {
    cases().push_back({name, about, run});
  }
};

template <class... Part>
std::string text(const Part&... parts) {
  std::ostringstream result;
  (result << ... << parts);
  return result.str();
}

/// Ends the process with a report unless `holds`.
template <class... Part>
void expect(bool holds, const char* check, const Part&... message) {
  if (!holds) machine::current()->fail(check, text(message...));
}

}  // namespace bwos::simulation
