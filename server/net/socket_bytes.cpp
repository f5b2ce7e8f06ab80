// SPDX-License-Identifier: Apache-2.0
#include "net/unsent_bytes.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

namespace bwos::server {

void limit_unsent_bytes(const port& listening, std::size_t most) noexcept {
  const auto bytes = static_cast<unsigned>(most);
  // A kernel that does not know it buffers more, and all else is the same.
  ::setsockopt(listening.native_handle(), IPPROTO_TCP, TCP_NOTSENT_LOWAT, &bytes, sizeof bytes);
}

}  // namespace bwos::server
