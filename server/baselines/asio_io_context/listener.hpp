// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "baselines/asio_io_context/executor.hpp"
#include "net/port.hpp"

namespace bwos::server::asio_sockets {

/// Accepts by a coroutine on a strand of its own; each connection's coroutine runs on whichever
/// thread its bytes find. Without descriptors or memory it pauses, until a connection ends or for
/// 100 ms.
class socket_listener final : public port {
 public:
  socket_listener(io_context_executor& where, const std::string& address, int backlog);
  socket_listener(io_context_executor& where, inherited_socket socket);
  ~socket_listener() override;

  [[nodiscard]] std::string address() const override;
  [[nodiscard]] int native_handle() const noexcept override;
  void limit_addresses(address_limit& by) noexcept override;
  void start(const connection_factory& of, std::size_t connections_max) override;
  void close() noexcept override;
  [[nodiscard]] bool closed() const noexcept override;
  void interrupt_connections() noexcept override;
  [[nodiscard]] std::size_t connections() const noexcept override;
  [[nodiscard]] std::size_t accepted() const noexcept override;
  [[nodiscard]] std::size_t refused() const noexcept override;

 private:
  struct core;
  const std::shared_ptr<core> core_;  // its coroutines', too: they end with the io_context
};

}  // namespace bwos::server::asio_sockets
