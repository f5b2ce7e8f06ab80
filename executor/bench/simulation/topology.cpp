// SPDX-License-Identifier: Apache-2.0
// In place of executor/src/steal/topology.cpp: the simulated machine's. Worker i is on CPU i.
#include "steal/topology.hpp"

#include "machine.hpp"

namespace bwos {

std::vector<unsigned> parse_cpu_list(const std::string& /*text*/) {
  return {};
}

unsigned current_cpu() noexcept {
  static unsigned next = 0;  // a pool makes its workers one after the other
  return next++;
}

topology topology::read(const std::string& /*root*/) {
  constexpr unsigned cpus = 1024;
  const simulation::costs& of = simulation::machine::current()->takes;
  topology result;
  for (unsigned cpu = 0; cpu < cpus; ++cpu) {
    result.places_.push_back(
        {.core = cpu, .cache = cpu - cpu % of.cache_cpus, .node = cpu - cpu % of.node_cpus});
  }
  return result;
}

proximity topology::between(unsigned one, unsigned other) const noexcept {
  const place& a = places_[one];
  const place& b = places_[other];
  return a.core == b.core     ? proximity::core
         : a.cache == b.cache ? proximity::cache
         : a.node == b.node   ? proximity::node
                              : proximity::machine;
}

}  // namespace bwos
