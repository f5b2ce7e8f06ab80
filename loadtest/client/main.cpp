// SPDX-License-Identifier: Apache-2.0
#include <sys/resource.h>

#include <cstdio>
#include <exception>
#include <string>

#include "generator.hpp"
#include "options.hpp"
#include "report.hpp"

namespace {

void raise_descriptor_limit() {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

bool write_to(const std::string& path, const std::string& text) {
  std::FILE* file = path == "-" ? stdout : std::fopen(path.c_str(), "w");
  if (file == nullptr) return false;
  const bool good = std::fwrite(text.data(), 1, text.size(), file) == text.size();
  return (file == stdout ? std::fflush(file) : std::fclose(file)) == 0 && good;
}

}  // namespace

int main(int argc, char** argv) {
  const bwos::load::options with = bwos::load::parse_command_line(argc, argv);
  raise_descriptor_limit();
  try {
    const bwos::load::outcome result = bwos::load::run(with);
    const std::string table = bwos::load::as_table(with, result);
    if (with.json != "-") std::fputs(table.c_str(), stdout);
    if (!with.json.empty() && !write_to(with.json, bwos::load::as_json(with, result))) {
      std::fprintf(stderr, "bwos-load: cannot write --json %s\n", with.json.c_str());
      return 1;
    }
    return result.failures() == 0 ? 0 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "bwos-load: %s\n", error.what());
    return 1;
  }
}
