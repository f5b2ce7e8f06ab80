// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

namespace bwos::test {

/// The other end of a connection: blocking, and giving up after half a minute.
class tcp_client {
 public:
  /// A socket, not yet connected.
  tcp_client() : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    if (fd_ < 0) throw std::system_error(errno, std::system_category(), "socket");
    const timeval limit{.tv_sec = 30, .tv_usec = 0};
    const int on = 1;
    ::setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    ::setsockopt(fd_, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    ::setsockopt(fd_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  }
  /// `address`: "127.0.0.1:port".
  explicit tcp_client(const std::string& address) : tcp_client() { connect(address); }
  tcp_client(tcp_client&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  ~tcp_client() { close(); }

  void connect(const std::string& address) {
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    to.sin_port =
        htons(static_cast<std::uint16_t>(std::stoi(address.substr(address.find(':') + 1))));
    if (::connect(fd_, reinterpret_cast<const sockaddr*>(&to), sizeof to) != 0)
      throw std::system_error(errno, std::system_category(), "connect");
  }

  void receive_buffer(int bytes) { ::setsockopt(fd_, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes); }

  /// False when the peer takes no more.
  bool send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t taken = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (taken <= 0) return false;
      bytes.remove_prefix(static_cast<std::size_t>(taken));
    }
    return true;
  }
  /// What the socket takes without waiting.
  std::size_t send_some(std::string_view bytes) {
    const ssize_t taken = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    return taken < 0 ? 0 : static_cast<std::size_t>(taken);
  }

  /// `count` bytes; fewer at the end, or when it took too long.
  std::string receive(std::size_t count) {
    std::string got(count, '\0');
    got.resize(receive(got.data(), count));
    return got;
  }
  std::size_t receive(char* into, std::size_t count) {
    std::size_t done = 0;
    while (done < count) {
      const ssize_t got = ::recv(fd_, into + done, count - done, 0);
      if (got <= 0) break;
      done += static_cast<std::size_t>(got);
    }
    return done;
  }
  /// 0: the end; 1: a byte more; else -errno.
  int receive_end() {
    char byte = 0;
    const ssize_t got = ::recv(fd_, &byte, 1, 0);
    return got < 0 ? -errno : static_cast<int>(got);
  }
  bool readable_within(int milliseconds) {
    pollfd what{.fd = fd_, .events = POLLIN, .revents = 0};
    return ::poll(&what, 1, milliseconds) == 1;
  }

  void shutdown_send() { ::shutdown(fd_, SHUT_WR); }
  void reset() {
    const linger at_once{.l_onoff = 1, .l_linger = 0};
    ::setsockopt(fd_, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    close();
  }
  void close() {
    if (fd_ >= 0) ::close(std::exchange(fd_, -1));
  }

 private:
  int fd_;
};

}  // namespace bwos::test
