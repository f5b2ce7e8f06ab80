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
#include <cstring>

#include "common/options.hpp"

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

// A TCP socket with the address and port of `with`, whose port becomes the chosen one where it was
// 0. Others of this user may share them.
inline int bind_to(options& with) {
  sockaddr_storage address{};
  socklen_t size = 0;
  if (is_ipv6(with)) {
    auto* const its = reinterpret_cast<sockaddr_in6*>(&address);
    its->sin6_family = AF_INET6;
    its->sin6_port = htons(with.port);
    ::inet_pton(AF_INET6, with.address.c_str(), &its->sin6_addr);
    size = sizeof *its;
  } else {
    auto* const its = reinterpret_cast<sockaddr_in*>(&address);
    its->sin_family = AF_INET;
    its->sin_port = htons(with.port);
    ::inet_pton(AF_INET, with.address.c_str(), &its->sin_addr);
    size = sizeof *its;
  }
  const int fd = ::socket(address.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  const int on = 1;
  ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  ::setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof on);
  auto* const generic = reinterpret_cast<sockaddr*>(&address);
  if (::bind(fd, generic, size) != 0) cannot_listen(with, std::strerror(errno));
  ::getsockname(fd, generic, &size);
  // At the same place in both.
  with.port = ntohs(reinterpret_cast<const sockaddr_in*>(&address)->sin_port);
  return fd;
}

inline int listen_on(options& with) {
  const int fd = bind_to(with);
  if (::listen(fd, SOMAXCONN) != 0) cannot_listen(with, std::strerror(errno));
  return fd;
}

}  // namespace bwos::peer
