// SPDX-License-Identifier: Apache-2.0
#include <csignal>
#include <exception>
#include <iostream>

#include "config.hpp"
#include "lifecycle.hpp"
#include "logging.hpp"

namespace {

int serve(const bwos::server::config& settings) {
  const bwos::server::termination_signals signals;  // first of all: threads inherit what it blocks
  std::signal(SIGPIPE, SIG_IGN);
  bwos::server::raise_descriptor_limit();

  bwos::server::server running(settings);
  std::cout << running.addresses() << '\n' << std::flush;
  running.wait(signals);
  running.drain(signals);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const auto parsed = bwos::server::parse_command_line(argc, argv, std::cout, std::cerr);
  if (parsed.exit_code) return *parsed.exit_code;
  try {
    bwos::server::log_to_stderr(parsed.settings.log_level, parsed.settings.log_format);
    return serve(parsed.settings);
  } catch (const bwos::server::start_error& error) {
    std::cerr << "bwos-server: " << error.what() << '\n';
    return 2;
  } catch (const std::exception& error) {
    std::cerr << "bwos-server: cannot start: " << error.what() << '\n';
    return 1;
  }
}
