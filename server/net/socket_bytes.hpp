// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "net/port.hpp"

namespace bwos::server {

/// What the kernel may keep of each connection. 0: as much as its own settings say.
struct socket_bytes {
  /// Bytes more than it may send at once (TCP_NOTSENT_LOWAT), about, in place of as much as the
  /// send buffer holds: 4 MiB by Linux's default (tcp_wmem). What is on its way to the peer does
  /// not count.
  std::size_t unsent_max;
  /// Bytes that have been received and not been read (SO_RCVBUF): the window that the peer is
  /// offered is no larger. The kernel takes no more than net.core.rmem_max, and counts its own
  /// bookkeeping up to as much again. In place of 6 MiB by Linux's default (tcp_rmem), to which a
  /// peer makes the buffer grow that sends fast for a while.
  std::size_t unread_max;
};

/// Before start(): of each connection that `listening` accepts from now on, as an accepted socket
/// has both from its listener. Connections that wait in the backlog of an inherited one already are
/// as they were.
void limit(const port& listening, const socket_bytes& to) noexcept;

}  // namespace bwos::server
