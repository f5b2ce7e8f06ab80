// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>

#include "net/address_limit.hpp"
#include "net/connection.hpp"

namespace bwos::server {

/// A bound socket and its connections. Any thread, but for start().
class port {
 public:
  port() = default;
  port(const port&) = delete;
  port& operator=(const port&) = delete;
  virtual ~port() = default;

  /// As bound.
  [[nodiscard]] virtual std::string address() const = 0;
  /// The listening socket, before start().
  [[nodiscard]] virtual int native_handle() const noexcept = 0;
  /// Before start(): whom `by` does not admit is refused. It must outlive the runtime.
  virtual void limit_addresses(address_limit& by) noexcept = 0;
  /// Accepts, once; those above `connections_max` are refused. `of` must outlive the runtime.
  virtual void start(const connection_factory& of, std::size_t connections_max) = 0;
  /// Takes no new connections, accepts what the backlog holds once more, then closes the socket. An
  /// inherited one is left to those who have it, too. Returns at once.
  virtual void close() noexcept = 0;
  [[nodiscard]] virtual bool closed() const noexcept = 0;
  /// Ends each connection's pending receive, or else its next one, with operation_canceled.
  virtual void interrupt_connections() noexcept = 0;
  /// Ends connections that are idle, where it does so: others need their memory.
  virtual void end_idle_connections() noexcept {}

  [[nodiscard]] virtual std::size_t connections() const noexcept = 0;  ///< Open now.
  [[nodiscard]] virtual std::size_t accepted() const noexcept = 0;
  /// Without those that an address_limit does not admit.
  [[nodiscard]] virtual std::size_t refused() const noexcept = 0;
  /// Ever: idle ones that were ended for others, where it does so.
  [[nodiscard]] virtual std::size_t made_room() const noexcept { return 0; }
};

}  // namespace bwos::server
