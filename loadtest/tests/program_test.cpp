// SPDX-License-Identifier: Apache-2.0
// bwos-load as a user meets it: what it exits with, and what it says.
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

struct ended {
  int code = -1;
  std::string said;  // both of its outputs
};

// Words and redirections (of standard output alone) as a shell takes them; `before` stands in front
// of the program.
ended load(const std::string& words, const std::string& before = {}) {
  const std::string command = before + " timeout 30 '" LOAD "' 2>&1 " + words;
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

// What is given, and how the line that refuses it begins.
const std::vector<std::array<std::string, 2>> refusals = {
    {{"--duration nan", "--duration nan: must lie in 0.01 to 86400"}},
    {{"--warmup nan", "--warmup nan: must lie in 0 to 3600"}},
    {{"--drain nan", "--drain nan: must lie in 0 to 3600"}},
    {{"--drain -nan", "--drain -nan: must lie in 0 to 3600"}},
    {{"--duration inf", "--duration inf: must lie in 0.01 to 86400"}},
    {{"--duration 1s", "--duration 1s: must lie in 0.01 to 86400"}},
    {{"--duration ''", "--duration '': must lie in 0.01 to 86400"}},
    {{"--threads 0", "--threads 0: must lie in 1 to 256"}},
    {{"--realtime 100", "--realtime 100: must lie in 0 to 99"}},
    {{"--seed -1", "--seed -1: must lie in 0 to 9223372036854775807"}},
    {{"--seed 99999999999999999999",
      "--seed 99999999999999999999: must lie in 0 to 9223372036854775807"}},
    {{"--seed 9223372036854775808",
      "--seed 9223372036854775808: must lie in 0 to 9223372036854775807"}},
    {{"--arrivals 0", "--arrivals 0: must be fixed or poisson"}},
    {{"--arrivals Fixed", "--arrivals Fixed: must be fixed or poisson"}},
    {{"--target 127.0.0.1:0", "--target port=0: must lie in 1 to 65535"}},
    {{"--target x", "--target 'x' is not an IPv4 address and a port"}},
    {{"--class connections=0", "--class connections=0: must lie in 1 to 60000"}},
    {{"--class rate=nan", "--class rate=nan: must lie in 0.001 to 1e+07"}},
    {{"--class color=red", "--class has no key 'color': valid are name,"}},
    {{"--class name=a,rate=5,rate=6", "--class rate=6: rate stands twice"}},
    {{"--class path=/b --class path=/b",
      "--class name=/b: two have it (without a name it is the path)"}},
    {{"--class name=a,protocol=h2,rate=5 --class name=a,path=/b", "--class name=a: two have it"}},
    {{"--class protocol=h2,rate=5,over=x", "--class over=x: must be the name of"}},
    {{"--json= --spin", "--json: no value behind '='"}},
    {{"--duration= 5", "--duration: no value behind '='"}},
    {{"--spin=", "--spin: no value behind '='"}}};

// Nothing listens on port 1: what is not refused ends with 1.
TEST(load_program, a_refusal_names_flag_value_and_range) {
  for (const auto& [given, line] : refusals) {
    const bool has_target = given.starts_with("--target");
    const ended refused =
        load((has_target ? "" : "--target 127.0.0.1:1 ") + ("--class path=/ " + given));
    EXPECT_EQ(refused.code, 2) << given;
    EXPECT_TRUE(refused.said.starts_with("bwos-load: " + line)) << given << "\n" << refused.said;
  }
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

TEST(load_program, an_older_json_file_goes_when_there_is_another_result) {
  const std::string path = ::testing::TempDir() + "load_program." + std::to_string(::getpid());
  const auto text = [&] {
    std::ostringstream held;
    held << std::ifstream(path).rdbuf();
    return held.str();
  };
  std::ofstream(path) << std::string(100'000, 'x');
  EXPECT_EQ(load("--target 127.0.0.1:1 --class path=/ --json " + path).code, 1);
  EXPECT_EQ(text(), std::string(100'000, 'x'));
  const silent_listener server;
  EXPECT_EQ(load(server.target() + short_run + "0 --json " + path).code, 0);
  EXPECT_EQ(text().front(), '{');
  EXPECT_EQ(text().find("xxx"), std::string::npos);
  ::unlink(path.c_str());
}

TEST(load_program, the_json_file_is_opened_before_the_run) {
  const ended refused = load("--target 127.0.0.1:1 --class path=/ --json /nowhere/a.json");
  EXPECT_EQ(refused.code, 2);
  EXPECT_EQ(refused.said, "bwos-load: --json /nowhere/a.json: No such file or directory\n");
}

TEST(load_program, a_result_that_cannot_be_written_is_an_error) {
  const silent_listener server;
  const std::string run = server.target() + short_run + "0 ";
  const std::string full = ": No space left on device\n";
  for (const char* words : {">/dev/full", "--json - >/dev/full"}) {
    const ended lost = load(run + words);
    EXPECT_EQ(lost.code, 1) << words;
    EXPECT_EQ(lost.said, "bwos-load: standard output" + full) << words;
  }
  const ended lost = load(run + "--json /dev/full >/dev/null");
  EXPECT_EQ(lost.code, 1);
  EXPECT_EQ(lost.said, "bwos-load: --json /dev/full" + full);
}

TEST(load_program, more_connections_than_descriptors_are_refused_before_the_first) {
  const std::string words =
      "--target 127.0.0.1:1 --class connections=60 --class name=b,connections=40";
  const ended refused = load(words, "ulimit -n 100;");
  EXPECT_EQ(refused.code, 2);
  EXPECT_EQ(refused.said,
            "bwos-load: --class connections=100 in all: 117 descriptors are needed, the limit is "
            "100: raise the hard one (ulimit -Hn)\n");
  // Just enough: nothing listens there.
  const ended enough = load(words, "ulimit -n 117;");
  EXPECT_EQ(enough.code, 1) << enough.said;
}

TEST(load_program, connections_of_another_class_need_no_descriptors) {
  const ended done = load(
      "--target 127.0.0.1:1 --class name=a,protocol=h2,connections=60,rate=9 "
      "--class name=b,protocol=h2,rate=9,over=a",
      "ulimit -n 77;");
  EXPECT_EQ(done.code, 1) << done.said;
}

}  // namespace
