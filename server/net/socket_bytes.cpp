// SPDX-License-Identifier: Apache-2.0
#include "net/socket_bytes.hpp"

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
    constexpr int unlocked = 0;
    ::setsockopt(socket, SOL_SOCKET, SO_BUF_LOCK, &unlocked, sizeof unlocked);
  }
}

}  // namespace bwos::server
