// SPDX-License-Identifier: Apache-2.0
#include "net/socket_bytes.hpp"

#include <linux/socket.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

namespace bwos::server {

/// A kernel that does not know one of them buffers more, and all else is the same.
void limit(const port& listening, const socket_bytes& to) noexcept {
  const int socket = listening.native_handle();
  const auto unsent = static_cast<unsigned>(to.unsent_max);
  ::setsockopt(socket, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &unsent, sizeof unsent);
  if (to.unread_max > 0) {
    const auto unread = static_cast<int>(to.unread_max);
    ::setsockopt(socket, SOL_SOCKET, SO_RCVBUF, &unread, sizeof unread);
  } else {  // an inherited one may have been given another
    int locked = 0;
    socklen_t size = sizeof locked;
    if (::getsockopt(socket, SOL_SOCKET, SO_BUF_LOCK, &locked, &size) != 0) return;
    locked &= ~SOCK_RCVBUF_LOCK;
    ::setsockopt(socket, SOL_SOCKET, SO_BUF_LOCK, &locked, sizeof locked);
  }
}

}  // namespace bwos::server
