// SPDX-License-Identifier: Apache-2.0
#include "costs.hpp"

#include <fstream>
#include <sstream>
#include <stdexcept>

namespace bwos::simulation {

double& costs::named(const std::string& name) {
#define BWOS_FIELD(field, meaning) \
  if (name == #field) return field;
  BWOS_COSTS(BWOS_FIELD)
#undef BWOS_FIELD
  throw std::runtime_error("there is no cost \"" + name + "\"");
}

costs costs::read(const std::string& path) {
  std::ifstream from(path);
  if (!from) throw std::runtime_error("cannot read the costs of " + path);
  costs result;
  std::string line;
  for (unsigned number = 1; std::getline(from, line); ++number) {
    std::istringstream words(line.substr(0, line.find('#')));
    std::string name;
    std::string equals;
    double value = 0;
    if (!(words >> name)) continue;
    if (!(words >> equals >> value) || equals != "=" || value < 0) {
      throw std::runtime_error(path + ", line " + std::to_string(number) +
                               ": it is to be \"name = a number of 0 or more\"");
    }
    if (name == "cache_cpus") {
      result.cache_cpus = static_cast<unsigned>(value);
    } else if (name == "node_cpus") {
      result.node_cpus = static_cast<unsigned>(value);
    } else {
      result.named(name) = value;
    }
  }
#define BWOS_FIELD(field, meaning) \
  if (result.field < 0) throw std::runtime_error(path + " does not say " #field ": " meaning);
  BWOS_COSTS(BWOS_FIELD)
#undef BWOS_FIELD
  if (result.cache_cpus == 0 || result.node_cpus == 0) {
    throw std::runtime_error(path + " does not say cache_cpus and node_cpus, of 1 or more");
  }
  return result;
}

}  // namespace bwos::simulation
