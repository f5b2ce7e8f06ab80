// SPDX-License-Identifier: Apache-2.0
#include "connection.hpp"

#include <fcntl.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

namespace bwos::load {

std::int64_t now_ns() {
  timespec time{};
  ::clock_gettime(CLOCK_MONOTONIC, &time);
  return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

connection::connection(const sockaddr_in& target) {
  fd_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd_ < 0) throw std::system_error(errno, std::generic_category(), "socket");
  const int on = 1;
  ::setsockopt(fd_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  if (::connect(fd_, reinterpret_cast<const sockaddr*>(&target), sizeof target) != 0) {
    const int error = errno;
    ::close(fd_);
    throw std::system_error(error, std::generic_category(), "connect");
  }
  ::fcntl(fd_, F_SETFL, O_NONBLOCK);
}

connection::~connection() {
  if (fd_ >= 0) ::close(fd_);
}

void connection::close() noexcept {
  ::close(fd_);
  fd_ = -1;
}

}  // namespace bwos::load
