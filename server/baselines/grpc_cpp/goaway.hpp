// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <grpcpp/grpcpp.h>
#include <sys/socket.h>

#include <chrono>
#include <span>
#include <vector>

namespace bwos::server {

/// Whether this build's gRPC gives a way to send_goaways().
[[nodiscard]] bool goaways_can_be_sent() noexcept;

/// Any thread: asks the peers of a running server to make no more calls on their connections and to
/// close them (GOAWAY). Calls are served as before, those included that were on their way. Nothing
/// where it cannot be done: then gRPC's shutdown asks them, and cancels what was on its way.
void send_goaways(grpc::Server& server) noexcept;

/// This process' listening sockets; none without /proc. gRPC tells nobody which it has opened:
/// those that are there after its server has started and were not before.
[[nodiscard]] std::vector<int> listening_sockets();

/// Once, while gRPC's server that opened them runs: closes them, so that peers are refused from now
/// on, and those whose handshakes had just ended. gRPC closes them only with its shutdown, and
/// peers that were sent away would come back until then. It goes on to hold descriptors of these
/// numbers. (A filter that drops peers' packets instead is not for ordinary users on every kernel.)
void stop_listening(std::span<const int> sockets) noexcept;

/// The addresses of listening sockets, for hold_connections().
[[nodiscard]] std::vector<sockaddr_storage> addresses_of(std::span<const int> listeners);

/// Second descriptors of the connections that this process has accepted at these addresses, to be
/// let go with let_go(); none without /proc or where descriptors are used up. When gRPC closes a
/// connection before it has read what has come, the kernel resets it, and throws away answers that
/// are on their way, but not while somebody else holds it. (A peer that sends more after that
/// close, as while it takes a large answer, is reset all the same: gRPC shuts both directions
/// down.)
[[nodiscard]] std::vector<int> hold_connections(std::span<const sockaddr_storage> addresses);

/// Closes what hold_connections() gave, each as soon as it is closed otherwise and its peer has all
/// that was sent, at the latest at the deadline.
void let_go(std::span<const int> connections, std::chrono::steady_clock::time_point deadline);

}  // namespace bwos::server
