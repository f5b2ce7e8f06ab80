// SPDX-License-Identifier: Apache-2.0
#include "ops/service_manager.hpp"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <string>

namespace bwos::server {
namespace {

using namespace std::chrono_literals;
using clock = service_manager::clock;

/// A manager's socket, of an abstract name, and the environment that it gives.
class manager_test : public testing::Test {
 protected:
  manager_test() {
    sockaddr_un at{};
    at.sun_family = AF_UNIX;
    std::memcpy(at.sun_path + 1, name_.data() + 1, name_.size() - 1);
    const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name_.size());
    EXPECT_EQ(::bind(socket_, reinterpret_cast<const sockaddr*>(&at), size), 0);
    ::setenv("NOTIFY_SOCKET", name_.c_str(), 1);
  }
  ~manager_test() override {
    for (const char* each : {"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"}) ::unsetenv(each);
    ::close(socket_);
  }
  /// What has been sent; nothing if nothing was.
  [[nodiscard]] std::string heard() const {
    std::array<char, 512> text{};
    const ssize_t size = ::recv(socket_, text.data(), text.size(), MSG_DONTWAIT);
    return {text.data(), size < 0 ? 0 : static_cast<std::size_t>(size)};
  }

  const std::string name_ = "@bwos-manager-" + std::to_string(::getpid());
  const int socket_ = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
};

TEST_F(manager_test, variables_are_taken_out_of_the_environment) {
  ::setenv("WATCHDOG_USEC", "1000000", 1);
  ::setenv("WATCHDOG_PID", std::to_string(::getpid()).c_str(), 1);
  auto manager = service_manager::from_environment();
  for (const char* each : {"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"}) {
    EXPECT_EQ(std::getenv(each), nullptr) << each;
  }
  manager.ready("here");
  EXPECT_EQ(heard(), "READY=1\nSTATUS=here");
  manager.stopping("there");
  EXPECT_EQ(heard(), "STOPPING=1\nSTATUS=there");
}

TEST_F(manager_test, the_watchdog_is_fed_from_ready_on_and_once_in_half_its_time) {
  ::setenv("WATCHDOG_USEC", "1000000", 1);
  auto manager = service_manager::from_environment();
  EXPECT_EQ(manager.until_watchdog(clock::now()), 24h);
  manager.feed_watchdog(clock::now() + 1h);
  EXPECT_EQ(heard(), "");
  manager.ready("");
  EXPECT_NE(heard(), "");
  const auto now = clock::now();
  EXPECT_LE(manager.until_watchdog(now), 500ms);
  manager.feed_watchdog(now);
  EXPECT_EQ(heard(), "") << "too early";
  const auto later = now + 500ms;
  // One that is due and not fed is looked at again, but not at once.
  EXPECT_EQ(manager.until_watchdog(later), 500ms);
  manager.feed_watchdog(later);
  EXPECT_EQ(heard(), "WATCHDOG=1");
  manager.feed_watchdog(later + 499ms);
  EXPECT_EQ(heard(), "");
  manager.feed_watchdog(later + 500ms);
  EXPECT_EQ(heard(), "WATCHDOG=1");
}

TEST_F(manager_test, a_watchdog_of_another_process_or_without_a_time_is_none) {
  ::setenv("WATCHDOG_USEC", "1000000", 1);
  ::setenv("WATCHDOG_PID", "1", 1);
  auto others = service_manager::from_environment();
  others.ready("");
  EXPECT_EQ(others.until_watchdog(clock::now()), 24h);
  for (const char* const time : {"0", "-1", "soon", ""}) {
    ::setenv("NOTIFY_SOCKET", name_.c_str(), 1);
    ::setenv("WATCHDOG_USEC", time, 1);
    auto none = service_manager::from_environment();
    none.ready("");
    EXPECT_EQ(none.until_watchdog(clock::now()), 24h) << time;
  }
}

TEST_F(manager_test, one_that_does_not_read_is_not_waited_for_for_ever) {
  auto manager = service_manager::from_environment();
  // Ends: its socket takes a few hundred at most, and each beyond takes a second.
  for (int i = 0; i < 2; ++i) {
    const auto begun = clock::now();
    do manager.stopping("");
    while (clock::now() - begun < 900ms);
    EXPECT_LT(clock::now() - begun, 30s);
  }
}

TEST(manager, without_its_variables_nothing_happens) {
  service_manager none = service_manager::from_environment();
  none.ready("");
  none.stopping("");
  none.feed_watchdog(clock::now());
  EXPECT_EQ(none.until_watchdog(clock::now()), 24h);
}

}  // namespace
}  // namespace bwos::server
