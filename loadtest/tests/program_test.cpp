// SPDX-License-Identifier: Apache-2.0
// bwos-load as a user meets it: what it exits with, and what it says.
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <stdexcept>
#include <string>

namespace {

struct ended {
  int code = -1;
  std::string said;  // both of its outputs
};

// Words and redirections as a shell takes them; `before` stands in front of the program.
ended load(const std::string& words, const std::string& before = {}) {
  const std::string command = before + " timeout 30 " LOAD " " + words + " 2>&1";
  std::FILE* const out = ::popen(command.c_str(), "r");
  if (out == nullptr) throw std::runtime_error("popen");
  ended result;
  std::array<char, 4096> part;
  while (const std::size_t got = std::fread(part.data(), 1, part.size(), out)) {
    result.said.append(part.data(), got);
  }
  const int status = ::pclose(out);
  if (WIFEXITED(status)) result.code = WEXITSTATUS(status);
  return result;
}

// Connections are taken by the kernel; nobody ever reads from them.
class silent_listener {
 public:
  silent_listener() : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    auto* const any = reinterpret_cast<sockaddr*>(&address);
    if (::bind(fd_, any, size) != 0 || ::listen(fd_, 16) != 0 ||
        ::getsockname(fd_, any, &size) != 0) {
      throw std::runtime_error("no listener");
    }
    target_ = "--target 127.0.0.1:" + std::to_string(ntohs(address.sin_port));
  }
  silent_listener(const silent_listener&) = delete;
  silent_listener& operator=(const silent_listener&) = delete;
  ~silent_listener() { ::close(fd_); }

  // The flag and its value.
  const std::string& target() const { return target_; }

 private:
  int fd_;
  std::string target_;
};

const std::string short_run =
    " --class path=/,rate=50 --arrivals fixed --duration 0.3 --warmup 0 --drain ";

TEST(load_program, answers_that_never_came_are_failures_where_they_were_waited_for) {
  const silent_listener server;
  const ended waited = load(server.target() + short_run + "0.1 --threads 2");
  EXPECT_EQ(waited.code, 1) << waited.said;
  // The last ones are always missing then: no failure of the server's.
  const ended not_waited = load(server.target() + short_run + "0");
  EXPECT_EQ(not_waited.code, 0) << not_waited.said;
}

}  // namespace
