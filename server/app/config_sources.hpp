// SPDX-License-Identifier: Apache-2.0
// Where flags get values besides the command line: environment variables and a file.
#pragma once

#include <stdexcept>
#include <string>
#include <vector>

namespace bwos::server {

/// A flag's value and where it was found.
struct given_value {
  std::string flag;  ///< "--workers"
  std::string value;
  std::string source;  ///< The variable's name or the file's.

  /// What says the same on a command line, whatever the value. A switch has none behind it.
  void append_to(std::vector<std::string>& arguments, bool is_switch) const;
};

/// A file that cannot be used; what() is the line for the user.
struct bad_file : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// "BWOS_DRAIN_DELAY" for "--drain-delay".
std::string variable_of(const std::string& flag);

/// Those of `flags` whose variables are set. Other variables are nobody's business.
std::vector<given_value> values_in_environment(const std::vector<std::string>& flags);

/// The entries of a TOML or INI file without sections: "drain-delay = 5s". Throws bad_file, also
/// for an entry that is none of `flags`.
std::vector<given_value> values_in_file(const std::string& path,
                                        const std::vector<std::string>& flags);

}  // namespace bwos::server
