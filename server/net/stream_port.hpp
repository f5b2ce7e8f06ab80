// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bwos/stream.hpp>
#include <memory>
#include <string>
#include <utility>

#include "net/address_limit.hpp"
#include "net/connection_loop.hpp"
#include "net/port.hpp"

namespace bwos::server {

/// A port on sockets of ours.
class stream_port final : public port {
 public:
  /// `where`: a pool or io_threads. Throws std::system_error, std::invalid_argument.
  template <class Where>
  stream_port(Where& where, const std::string& address, int backlog)
      : sockets_(where, address, backlog) {}
  template <class Where>
  stream_port(Where& where, inherited_socket socket) : sockets_(where, socket) {}

  [[nodiscard]] std::string address() const override { return sockets_.address(); }
  [[nodiscard]] int native_handle() const noexcept override { return sockets_.native_handle(); }
  void limit_addresses(address_limit& by) noexcept override { addresses_ = &by; }
  void start(const connection_factory& of, std::size_t connections_max) override {
    const std::size_t most = of.refusals_max();
    listener::handler on_refused;
    if (most > 0) on_refused = [&of](stream peer) { return refuse(std::move(peer), of); };
    if (addresses_ == nullptr) {
      return sockets_.start([&of](stream peer) { return serve(std::move(peer), of); },
                            connections_max, std::move(on_refused), most);
    }
    // The place of who is being accepted, and then the connection's. Where that comes to nothing it
    // is given back when the next one is asked about.
    const auto place = std::make_shared<address_limit::place>();
    sockets_.start(
        [&of, place](stream peer) { return serve(std::move(peer), of, std::move(*place)); },
        connections_max, std::move(on_refused), most,
        [place, by = addresses_](int accepted) { return by->admit(accepted, *place); });
  }
  void close() noexcept override { sockets_.close(); }
  [[nodiscard]] bool closed() const noexcept override { return sockets_.closed(); }
  void interrupt_connections() noexcept override { sockets_.interrupt_connections(); }
  void end_idle_connections() noexcept override { sockets_.end_idle_connections(); }
  [[nodiscard]] std::size_t connections() const noexcept override { return sockets_.connections(); }
  [[nodiscard]] std::size_t accepted() const noexcept override { return sockets_.accepted(); }
  [[nodiscard]] std::size_t refused() const noexcept override { return sockets_.refused(); }
  [[nodiscard]] std::size_t made_room() const noexcept override { return sockets_.made_room(); }

 private:
  listener sockets_;
  address_limit* addresses_ = nullptr;
};

}  // namespace bwos::server
