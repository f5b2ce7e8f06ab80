// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bwos/stream.hpp>
#include <optional>

namespace bwos::server {

/// Listening sockets that the process was started with: systemd's socket activation, see
/// sd_listen_fds(3). Whoever opened them keeps them open when this process ends, and gives them to
/// the next.
struct inherited_sockets {
  std::optional<inherited_socket> http;  ///< Named so: in place of --http-listen.
  std::optional<inherited_socket> grpc;  ///< In place of --grpc-listen.

  /// Of LISTEN_PID, LISTEN_FDS and LISTEN_FDNAMES, which are unset; none where they are another
  /// process's. The descriptors are closed in children. Before the first thread. Throws start_error
  /// for what is no listening TCP socket, or not named http or grpc, or twice.
  static inherited_sockets from_environment();
};

}  // namespace bwos::server
