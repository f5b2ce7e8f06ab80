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

class load_refusal : public testing::TestWithParam<std::array<const char*, 2>> {};
INSTANTIATE_TEST_SUITE_P(
    flags, load_refusal,
    testing::Values(
        std::array{"--duration nan", "--duration nan: must lie in 0.01 to 86400"},
        std::array{"--warmup nan", "--warmup nan: must lie in 0 to 3600"},
        std::array{"--drain nan", "--drain nan: must lie in 0 to 3600"},
        std::array{"--drain -nan", "--drain -nan: must lie in 0 to 3600"},
        std::array{"--duration inf", "--duration inf: must lie in 0.01 to 86400"},
        std::array{"--duration 1s", "--duration 1s: must lie in 0.01 to 86400"},
        std::array{"--duration ''", "--duration '': must lie in 0.01 to 86400"},
        std::array{"--threads 0", "--threads 0: must lie in 1 to 256"},
        std::array{"--realtime 100", "--realtime 100: must lie in 0 to 99"},
        std::array{"--seed -1", "--seed -1: must lie in 0 to 9223372036854775807"},
        std::array{"--seed 99999999999999999999",
                   "--seed 99999999999999999999: must lie in 0 to 9223372036854775807"},
        std::array{"--seed 9223372036854775808",
                   "--seed 9223372036854775808: must lie in 0 to 9223372036854775807"},
        std::array{"--arrivals 0", "--arrivals 0: must be fixed or poisson"},
        std::array{"--arrivals Fixed", "--arrivals Fixed: must be fixed or poisson"},
        std::array{"--target 127.0.0.1:0", "--target port=0: must lie in 1 to 65535"},
        std::array{"--target x", "--target 'x' is not an IPv4 address and a port"},
        std::array{"--class connections=0", "--class connections=0: must lie in 1 to 60000"},
        std::array{"--class rate=nan", "--class rate=nan: must lie in 0.001 to 1e+07"},
        std::array{"--class color=red", "--class has no key 'color': valid are name,"},
        std::array{"--class name=a,rate=5,rate=6", "--class rate=6: rate stands twice"},
        std::array{"--class path=/b --class path=/b",
                   "--class name=/b: two have it (without a name it is the path)"},
        std::array{"--class name=a,protocol=h2,rate=5 --class name=a,path=/b",
                   "--class name=a: two have it"},
        std::array{"--class protocol=h2,rate=5,over=x", "--class over=x: must be the name of"},
        std::array{"--json= --spin", "--json: no value behind '='"},
        std::array{"--duration= 5", "--duration: no value behind '='"},
        std::array{"--spin=", "--spin: no value behind '='"}));

// Nothing listens on port 1: what is not refused ends with 1.
TEST_P(load_refusal, names_flag_value_and_range) {
  const auto [given, line] = GetParam();
  const std::string words(given);
  const char* const target = words.starts_with("--target") ? "" : "--target 127.0.0.1:1 ";
  const ended refused = load(target + ("--class path=/ " + words));
  EXPECT_EQ(refused.code, 2);
  EXPECT_TRUE(refused.said.starts_with("bwos-load: " + std::string(line))) << refused.said;
}

TEST(load_program, the_ends_of_the_ranges_are_taken) {
  const silent_listener server;
  const ended done = load(server.target() +
                          " --class path=/,rate=1 --duration 0.01 --warmup 0 --drain 0 "
                          "--seed 9223372036854775807 --realtime 0 --threads 1 --arrivals poisson");
  EXPECT_EQ(done.code, 0) << done.said;
}

TEST(load_program, help_tells_the_names_of_the_arrivals_only) {
  const ended helped = load("--help");
  EXPECT_EQ(helped.code, 0);
  EXPECT_NE(helped.said.find("--arrivals fixed|poisson"), std::string::npos) << helped.said;
  EXPECT_EQ(helped.said.find("->"), std::string::npos) << helped.said;
}

}  // namespace
