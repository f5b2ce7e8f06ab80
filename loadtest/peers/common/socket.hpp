// SPDX-License-Identifier: Apache-2.0
// What the peers that call the kernel themselves share.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

namespace bwos::peer {

[[noreturn]] inline void fail(const char* what) {
  std::perror(what);
  std::exit(1);
}

inline void watch(int set, int operation, int fd, std::uint32_t events, void* whose) {
  epoll_event event{};
  event.events = events;
  event.data.ptr = whose;
  if (::epoll_ctl(set, operation, fd, &event) != 0) fail("epoll_ctl");
}

// Calls `take` with each connection that waits.
template <class Function>
void accept_all(int listener, Function&& take) {
  for (;;) {
    const int fd = ::accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd >= 0) {
      const int on = 1;
      ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
      take(fd);
    } else if (errno == EAGAIN) {
      return;
    } else if (errno != ECONNABORTED && errno != EINTR) {
      fail("accept4");  // out of descriptors: a figure taken here would mean nothing
    }
  }
}

// A listener on `port`, which becomes the chosen one where it was 0.
inline int listen_on(std::uint16_t& port) {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  const int on = 1;
  ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  ::setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof on);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(port);
  if (::bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) fail("bind");
  if (::listen(fd, SOMAXCONN) != 0) fail("listen");
  socklen_t size = sizeof address;
  ::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size);
  port = ntohs(address.sin_port);
  return fd;
}

}  // namespace bwos::peer
