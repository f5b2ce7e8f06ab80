// SPDX-License-Identifier: Apache-2.0
// Command lines, an argument a line of the input: each is taken, or refused in one line.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "app/config.hpp"

namespace {

void expect(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "not so: %s\n", what);
  std::abort();
}

std::vector<std::string> lines_of(std::string_view input) {
  std::vector<std::string> lines{"bwos-server"};
  while (!input.empty()) {
    const std::size_t end = std::min(input.find('\n'), input.size());
    const std::string_view line = input.substr(0, end);
    lines.emplace_back(line.substr(0, line.find('\0')));  // an argument ends there
    input.remove_prefix(std::min(end + 1, input.size()));
  }
  return lines;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::vector<std::string> arguments = lines_of({reinterpret_cast<const char*>(data), size});
  std::vector<const char*> argv;
  for (const std::string& each : arguments) argv.push_back(each.c_str());
  argv.push_back(nullptr);

  std::ostringstream out;
  std::ostringstream err;
  // One for all: to make its flags takes ten times as long as to parse them.
  static bwos::server::command_line_parser parser;
  const auto parsed = parser.parse(static_cast<int>(arguments.size()), argv.data(), out, err);
  const std::string said = err.str();
  if (!parsed.exit_code) {
    expect(said.empty() && out.str().empty(), "what is taken is taken silently");
    parsed.settings.pool_options().validate();  // throws where the two disagree
  } else if (*parsed.exit_code == 0) {
    expect(said.empty() && !out.str().empty(), "help goes to the output");
  } else {
    expect(*parsed.exit_code == 2, "a mistake ends with 2");
    expect(std::count(said.begin(), said.end(), '\n') == 1 && said.back() == '\n',
           "a mistake is told in one line");
    expect(out.str().empty(), "and nowhere else");
  }
  return 0;
}
