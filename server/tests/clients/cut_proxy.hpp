// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

namespace bwos::server::test {

/// Stands between a client and a server, for one connection after the other, and resets it when it
/// is told to: what was on its way is lost, frames are cut off in the middle.
class cut_proxy {
 public:
  /// `target`: 127.0.0.1:PORT.
  explicit cut_proxy(const std::string& target)
      : target_(local(static_cast<std::uint16_t>(std::stoi(target.substr(target.find(':') + 1))))) {
    sockaddr_in bound = local(0);
    socklen_t size = sizeof bound;
    if (::bind(listener_, as_any(bound), size) != 0 || ::listen(listener_, 16) != 0 ||
        ::getsockname(listener_, as_any(bound), &size) != 0) {
      throw std::system_error(errno, std::generic_category(), "proxy");
    }
    address_ = "127.0.0.1:" + std::to_string(ntohs(bound.sin_port));
    thread_ = std::jthread([this](const std::stop_token& over) { run(over); });
  }
  ~cut_proxy() {
    thread_.request_stop();
    wake();
    thread_.join();
    close_pair();
    ::close(listener_);
    ::close(wake_);
  }
  cut_proxy(const cut_proxy&) = delete;
  cut_proxy& operator=(const cut_proxy&) = delete;

  [[nodiscard]] const std::string& address() const noexcept { return address_; }

  /// Any thread: the connection that is open, if one is, is reset soon, at both ends.
  void cut() noexcept {
    cut_wanted_.store(true);
    wake();
  }
  /// Odd from before a connection is reset until the next one is accepted. So a call that sees the
  /// same even number before it begins and after its end was on a connection that nobody reset.
  [[nodiscard]] std::uint64_t generation() const noexcept { return generation_.load(); }

 private:
  struct direction {
    int from = -1;
    int to = -1;
    std::vector<char> bytes = std::vector<char>(64 * 1024);
    std::size_t begin = 0;
    std::size_t end = 0;
    bool from_ended = false;
    bool to_told = false;

    [[nodiscard]] bool is_empty() const noexcept { return begin == end; }

    /// As far as that goes without waiting. False: one of the sockets is broken.
    bool pass() noexcept {
      if (is_empty() && !from_ended) {
        const ssize_t got = ::recv(from, bytes.data(), bytes.size(), MSG_DONTWAIT);
        if (got < 0 && errno != EAGAIN) return false;
        begin = 0;
        end = got < 0 ? 0 : static_cast<std::size_t>(got);
        from_ended = got == 0;
      }
      if (!is_empty()) {
        const ssize_t put =
            ::send(to, bytes.data() + begin, end - begin, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (put < 0 && errno != EAGAIN) return false;
        if (put > 0) begin += static_cast<std::size_t>(put);
      }
      if (from_ended && is_empty() && !to_told) {
        ::shutdown(to, SHUT_WR);
        to_told = true;
      }
      return true;
    }
  };

  static sockaddr_in local(std::uint16_t port) noexcept {
    sockaddr_in made{};
    made.sin_family = AF_INET;
    made.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    made.sin_port = htons(port);
    return made;
  }
  static sockaddr* as_any(sockaddr_in& of) noexcept { return reinterpret_cast<sockaddr*>(&of); }
  static int tcp_socket() noexcept { return ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0); }

  void wake() const noexcept { ::eventfd_write(wake_, 1); }

  void run(const std::stop_token& over) {
    while (!over.stop_requested()) {
      wait();
      eventfd_t ignored = 0;
      ::eventfd_read(wake_, &ignored);
      if (cut_wanted_.exchange(false) && is_open()) {
        ++generation_;
        reset_pair();
      }
      if (!is_open()) {
        accept_pair();
        continue;
      }
      const bool well = up_.pass() && down_.pass();
      if (!well || (up_.to_told && down_.to_told)) close_pair();
    }
  }

  /// Until a socket is ready for what it is there for.
  void wait() noexcept {
    std::array<pollfd, 4> all{{{wake_, POLLIN, 0},
                               {is_open() ? -1 : listener_, POLLIN, 0},
                               {up_.from, events(up_, down_), 0},
                               {down_.from, events(down_, up_), 0}}};
    for (pollfd& each : all) {
      if (each.events == 0) each.fd = -1;  // it would report its hangup all the time
    }
    ::poll(all.data(), all.size(), -1);
  }
  /// Of the socket from which `in` comes and to which `out` goes.
  static short events(const direction& in, const direction& out) noexcept {
    const int read = in.is_empty() && !in.from_ended ? POLLIN : 0;
    return static_cast<short>(read | (out.is_empty() ? 0 : POLLOUT));
  }

  [[nodiscard]] bool is_open() const noexcept { return up_.from >= 0; }

  void accept_pair() {
    const int client = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (client < 0) return;
    const int server = tcp_socket();
    if (::connect(server, as_any(target_), sizeof target_) != 0) {
      ::close(server);
      ::close(client);
      return;
    }
    for (const int each : {client, server}) {
      const int on = 1;
      ::setsockopt(each, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    }
    up_.from = down_.to = client;
    up_.to = down_.from = server;
    if (generation_.load() % 2 == 1) ++generation_;
  }
  void reset_pair() noexcept {
    const linger at_once{.l_onoff = 1, .l_linger = 0};
    for (const int each : {up_.from, up_.to}) {
      ::setsockopt(each, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    }
    close_pair();
  }
  void close_pair() noexcept {
    if (!is_open()) return;
    ::close(up_.from);
    ::close(up_.to);
    up_ = {};
    down_ = {};
  }

  sockaddr_in target_;
  const int listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  const int wake_ = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  std::string address_;
  std::atomic<bool> cut_wanted_{false};
  std::atomic<std::uint64_t> generation_{0};
  direction up_;    // from the client
  direction down_;  // to it
  std::jthread thread_;
};

}  // namespace bwos::server::test
