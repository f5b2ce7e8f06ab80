// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <grpcpp/grpcpp.h>

#include <cstdint>

namespace bwos::server {

/// Whether this build's gRPC gives a way to send_goaways().
[[nodiscard]] bool goaways_can_be_sent() noexcept;

/// Any thread: asks the peers of a running server to make no more calls on their connections and to
/// close them (GOAWAY). Calls are served as before, those included that were on their way. Nothing
/// where it cannot be done: then gRPC's shutdown asks them, and cancels what was on its way.
void send_goaways(grpc::Server& server) noexcept;

/// Any thread: closes this process' listening sockets of a port: peers are refused from now on, and
/// so are those whose handshakes had just ended. gRPC closes its own only with its shutdown, and
/// peers that were sent away would come back until then. It goes on to hold a descriptor of the
/// same number. (A filter that drops their packets instead is not for ordinary users on every
/// kernel.)
void stop_listening_on(std::uint16_t port) noexcept;

}  // namespace bwos::server
