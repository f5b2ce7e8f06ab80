// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bwos/stream.hpp>
#include <string>
#include <utility>

#include "http/h2/connection.hpp"
#include "net/runtime.hpp"

namespace bwos::server {

/// HTTP, or native gRPC, on sockets of ours.
class stream_listener final : public http_listener {
 public:
  /// `where`: a pool or io_threads.
  template <class Where>
  stream_listener(Where& where, const std::string& address, int backlog)
      : sockets_(where, address, backlog) {}
  template <class Where>
  stream_listener(Where& where, inherited_socket socket) : sockets_(where, socket) {}

  [[nodiscard]] std::string address() const override { return sockets_.address(); }
  void start(const http1::context& shared, std::size_t connections_max) override {
    sockets_.start(
        [&shared](stream peer) { return http1::serve(std::move(peer), shared); }, connections_max,
        [&shared](stream peer) { return http1::refuse(std::move(peer), shared); }, refusals_max);
  }
  /// Those above are closed without a word. Clients of gRPC take SETTINGS for a connection that has
  /// come about: after a GOAWAY, whatever its code, gRPC's core and grpc-go connect again at once,
  /// hundreds of times a second. One that does not come about they try again after their backoff,
  /// and calls fail with UNAVAILABLE meanwhile; so they take http1::refuse()'s answer, too.
  void start_grpc(const native::shared& shared, std::size_t connections_max) override {
    sockets_.start([&shared](stream peer) { return native::serve(std::move(peer), shared); },
                   connections_max);
  }
  void close() noexcept override { sockets_.close(); }
  [[nodiscard]] bool closed() const noexcept override { return sockets_.closed(); }
  void interrupt_connections() noexcept override { sockets_.interrupt_connections(); }
  [[nodiscard]] std::size_t connections() const noexcept override { return sockets_.connections(); }
  [[nodiscard]] std::size_t accepted() const noexcept override { return sockets_.accepted(); }
  [[nodiscard]] std::size_t refused() const noexcept override { return sockets_.refused(); }
  [[nodiscard]] std::size_t made_room() const noexcept override { return sockets_.made_room(); }

 private:
  listener sockets_;
};

}  // namespace bwos::server
