// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace bwos::server {

/// "127.0.0.1:50051", "[::1]:0" or "localhost:50051", taken apart.
struct host_port {
  std::string host;  ///< Without brackets.
  std::uint16_t port = 0;

  [[nodiscard]] std::string text() const;
};

/// Throws std::invalid_argument, which quotes `text` and says what is expected.
host_port parse_host_port(std::string_view text);

/// Binds and listens at `address` for a moment, as gRPC will, and throws the std::system_error that
/// this meets. gRPC itself only says that it could not listen; address in use, not ours and not
/// allowed are told apart here.
void probe_listen(const host_port& address);

}  // namespace bwos::server
