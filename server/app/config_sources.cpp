// SPDX-License-Identifier: Apache-2.0
#include "app/config_sources.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <system_error>

namespace bwos::server {
namespace {

/// A file of every flag has about 2 KiB; what is larger is something else.
constexpr std::size_t file_bytes_max = 64 * 1024;

std::string read_file(const std::string& path) {
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  std::string text(file_bytes_max + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (!file.is_open() || file.bad()) {  // a directory opens, but cannot be read
    const int error = errno == 0 ? EIO : errno;
    throw bad_file("--config " + path + ": " + std::generic_category().message(error) +
                   "; must be a file that can be read");
  }
  text.resize(static_cast<std::size_t>(file.gcount()));
  if (text.size() > file_bytes_max) {
    throw bad_file("--config " + path + ": must have at most " + std::to_string(file_bytes_max) +
                   " bytes");
  }
  return text;
}

[[noreturn]] void refuse_entry(const std::string& path, const std::string& name, const char* why) {
  throw bad_file("--config " + path + ": '" + name + "' " + why);
}

/// As the file has it; the reader marks the beginnings of sections with entries of its own.
std::string name_of(const CLI::ConfigItem& entry) {
  return entry.name == "++" ? "[" + CLI::detail::join(entry.parents, ".") + "]" : entry.fullname();
}

}  // namespace

void given_value::append_to(std::vector<std::string>& arguments, bool is_switch) const {
  if (value.empty() && is_switch) {  // "--flag=" would switch it on
    arguments.push_back(flag + "=''");
  } else if (value.empty()) {  // "--flag=" would take the next argument
    arguments.insert(arguments.end(), {flag, value});
  } else {
    arguments.push_back(flag + "=" + value);  // whatever it begins with
  }
}

std::string variable_of(const std::string& flag) {
  std::string name = "BWOS_" + flag.substr(2);
  for (char& c : name) c = c == '-' ? '_' : static_cast<char>(std::toupper(c));
  return name;
}

std::vector<given_value> values_in_environment(const std::vector<std::string>& flags) {
  std::vector<given_value> found;
  for (const std::string& flag : flags) {
    const std::string name = variable_of(flag);
    if (const char* const value = std::getenv(name.c_str())) found.push_back({flag, value, name});
  }
  return found;
}

std::vector<given_value> values_in_file(const std::string& path,
                                        const std::vector<std::string>& flags) {
  std::istringstream text(read_file(path));
  std::vector<given_value> found;
  for (const CLI::ConfigItem& entry : CLI::ConfigTOML().from_config(text)) {
    const std::string name = name_of(entry);
    const std::string flag = "--" + name;
    if (std::find(flags.begin(), flags.end(), flag) == flags.end()) {
      refuse_entry(path, name, "is no flag's name (see --help)");
    }
    if (entry.inputs.size() != 1) {
      refuse_entry(path, name, "must have one value");
    }
    found.push_back({flag, entry.inputs.front(), path});
  }
  return found;
}

}  // namespace bwos::server
