// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <exception>
#include <iostream>

#include "app/config.hpp"
#include "app/demo.hpp"
#include "base/logging.hpp"
#include "base/start_error.hpp"

namespace {

/// A standard stream that whoever started us has closed: the next socket would get its number, and
/// with it what is written there.
void open_standard_streams() {
  for (int fd = 0; fd <= 2; ++fd) {
    if (::fcntl(fd, F_GETFD) < 0 && errno == EBADF && ::open("/dev/null", O_RDWR) != fd)
      std::abort();
  }
}

int serve(const bwos::server::config& settings) {
  // First of all: threads inherit what it blocks.
  const bwos::server::termination_signals signals(!settings.access_log.file.empty());
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);  // an access log as large as it may be is a full disk's
  bwos::server::raise_descriptor_limit();

  const auto running =
      bwos::server::make_demo(settings, bwos::server::service_manager::from_environment(),
                              bwos::server::inherited_sockets::from_environment());
  std::cout << running->addresses() << '\n' << std::flush;
  running->wait(signals);
  running->drain(signals);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  open_standard_streams();
  const auto parsed = bwos::server::parse_command_line(argc, argv, std::cout, std::cerr);
  if (parsed.exit_code) return *parsed.exit_code;
  try {
    bwos::server::log_to_stderr(parsed.settings.log_level, parsed.settings.log_format);
    return serve(parsed.settings);
  } catch (const bwos::server::start_error& error) {
    std::cerr << "bwos-server: " << error.what() << '\n';
    return error.may_pass ? 1 : 2;
  } catch (const std::exception& error) {
    std::cerr << "bwos-server: cannot start: " << error.what() << '\n';
    return 1;
  }
}
