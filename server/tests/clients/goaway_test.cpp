// SPDX-License-Identifier: Apache-2.0
// Connections that are held while gRPC closes them: what was sent arrives.
#include "baselines/grpc_cpp/goaway.hpp"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <future>
#include <span>
#include <string>
#include <vector>

namespace bwos::server::test {
namespace {

using namespace std::chrono_literals;
using std::chrono::steady_clock;

/// A TCP connection of this process with itself, of whose answer not all fits in the peer's buffer.
class connection {
 public:
  connection() {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    auto* const any = reinterpret_cast<sockaddr*>(&address);
    EXPECT_EQ(::bind(listener, any, size), 0);
    EXPECT_EQ(::listen(listener, 1), 0);
    EXPECT_EQ(::getsockname(listener, any, &size), 0);
    addresses = addresses_of(std::span(&listener, 1));
    const int small = 4096;
    ::setsockopt(peer, SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
    const int large = 1 << 20;
    ::setsockopt(listener, SOL_SOCKET, SO_SNDBUF, &large, sizeof large);
    EXPECT_EQ(::connect(peer, any, size), 0);
    accepted = ::accept(listener, nullptr, nullptr);
    EXPECT_GE(accepted, 0);
  }
  connection(const connection&) = delete;
  connection& operator=(const connection&) = delete;
  ~connection() {
    ::close(peer);
    ::close(listener);
  }

  /// The peer sends something that is not read, the answer is sent, and it is closed as gRPC does.
  void answer_and_close() const {
    EXPECT_EQ(::send(peer, "unread", 6, 0), 6);
    pollfd readable{accepted, POLLIN, 0};
    EXPECT_EQ(::poll(&readable, 1, 60'000), 1);
    EXPECT_EQ(::send(accepted, answer.data(), answer.size(), MSG_NOSIGNAL), ssize_t(answer.size()));
    ::shutdown(accepted, SHUT_RDWR);
    ::close(accepted);
  }

  /// How much of the answer the peer gets; `error`: how that ended, 0: properly.
  [[nodiscard]] std::size_t arrived(int& error) const {
    std::string bytes(answer.size(), '\0');
    std::size_t count = 0;
    for (;;) {
      const ssize_t got = ::recv(peer, bytes.data(), bytes.size(), 0);
      error = got < 0 ? errno : 0;
      if (got <= 0) return count;
      count += static_cast<std::size_t>(got);
    }
  }

  const std::string answer = std::string(200'000, 'a');
  const int listener = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int peer = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  int accepted = -1;
  std::vector<sockaddr_storage> addresses;
};

TEST(goaway, without_a_hold_a_reset_throws_answers_away) {
  const connection cut;
  cut.answer_and_close();
  int error = 0;
  EXPECT_LT(cut.arrived(error), cut.answer.size()) << "this kernel would need no hold";
  EXPECT_EQ(error, ECONNRESET);
}

TEST(goaway, what_was_sent_on_a_held_connection_arrives) {
  const connection held;
  const std::vector<int> seconds = hold_connections(held.addresses);
  ASSERT_EQ(seconds.size(), 1U) << "neither the listener nor the peer's end";
  held.answer_and_close();
  auto gone = std::async(std::launch::async, [&] { let_go(seconds, steady_clock::now() + 1h); });
  EXPECT_EQ(gone.wait_for(50ms), std::future_status::timeout) << "the peer has not got all";
  int error = 0;
  EXPECT_EQ(held.arrived(error), held.answer.size());
  EXPECT_EQ(error, 0);
  gone.get();
  EXPECT_TRUE(hold_connections(held.addresses).empty());
}

TEST(goaway, connections_at_another_address_of_the_same_port_are_not_held) {
  const connection theirs;
  std::vector<sockaddr_storage> addresses = theirs.addresses;
  auto& address = reinterpret_cast<sockaddr_in&>(addresses.at(0));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK + 1);
  EXPECT_TRUE(hold_connections(addresses).empty());
  address.sin_addr.s_addr = INADDR_ANY;
  const std::vector<int> seconds = hold_connections(addresses);
  EXPECT_EQ(seconds.size(), 1U);
  let_go(seconds, steady_clock::now());
  ::close(theirs.accepted);
}

TEST(goaway, a_peer_that_does_not_read_is_waited_for_until_the_deadline) {
  const connection held;
  const std::vector<int> seconds = hold_connections(held.addresses);
  held.answer_and_close();
  const auto begun = steady_clock::now();
  let_go(seconds, begun + 50ms);
  EXPECT_GE(steady_clock::now() - begun, 50ms);
  EXPECT_TRUE(hold_connections(held.addresses).empty());
}

}  // namespace
}  // namespace bwos::server::test
