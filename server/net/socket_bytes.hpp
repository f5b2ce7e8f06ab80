// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "net/port.hpp"

namespace bwos::server {

/// Before start(): of each connection that `listening` accepts from now on the kernel takes about
/// `most` bytes more than it may send at once (TCP_NOTSENT_LOWAT, which an accepted socket has from
/// its listener), in place of as much as the send buffer holds: 4 MiB by Linux's default
/// (tcp_wmem). What is on its way to the peer does not count. 0: the kernel's own default
/// (net.ipv4.tcp_notsent_lowat), whatever an inherited socket had. Connections that wait in the
/// backlog of an inherited one already are as they were.
void limit_unsent_bytes(const port& listening, std::size_t most) noexcept;

}  // namespace bwos::server
