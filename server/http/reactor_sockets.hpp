// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bwos/stream.hpp>
#include <bwos/task.hpp>
#include <string>
#include <utility>

#include "base/ticks.hpp"
#include "http/h2/connection.hpp"
#include "net/executor.hpp"

namespace bwos::server {

/// What the life of a connection (http1, native) is a template over, for sockets on reactors of
/// ours.
struct reactor_sockets {
  using socket = stream;
  static constexpr bool has_calls = true;  ///< Handlers of gRPC, which may outlive the socket.
  template <class T>
  using coroutine = task<T>;
  static auto yield(socket&, executor& where) noexcept { return where.yield(); }
  static auto lane(socket&, executor& where, metrics::ticks since) noexcept {
    return where.lane(since);
  }
  /// A connection that is HTTP/2's, with the bytes that it began with.
  static task<void> http2(socket taken, const http1::context& http, std::string first) {
    return native::serve(std::move(taken), http.http2, &http, std::move(first));
  }
};

}  // namespace bwos::server
