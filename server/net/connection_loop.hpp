// SPDX-License-Identifier: Apache-2.0
// What every connection does, whatever its protocol and its sockets: wait for bytes or for a turn,
// let the protocol take them, send what it wrote, over and over.
//
// INVARIANTS
// C1  What belongs to the worker (its buffers, its counters, the bytes received) is used only
//     inside functions that are no coroutines: after a co_await the coroutine may be on another
//     worker.
// C2  Before a co_await the worker's output buffer has been sent: what the kernel did not take is
//     in unsent_, what was received and not parsed the protocol keeps.
// C3  Nothing is received while something is unsent: a peer that does not read cannot make the
//     server buffer more.
#pragma once

#include <bwos/stream.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <new>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/counters.hpp"
#include "http/limits.hpp"
#include "net/executor.hpp"

namespace bwos::server {

/// What a connection does once everything that it has written is sent. `other`: its bytes are of
/// another protocol, which takes the socket.
enum class next : std::uint8_t { receive, go_on, lane, linger, other, close };

/// Our last answer is on its way. Closing with unread bytes would reset the connection and could
/// overtake it, so the peer's are read and dropped until it closes, within bounds.
template <class Sockets>
typename Sockets::template coroutine<void> linger(typename Sockets::socket& peer) {
  peer.shutdown_send();
  peer.deadline(std::chrono::steady_clock::now() + linger_time);
  std::size_t dropped = 0;
  while (dropped < linger_bytes_max) {
    const received got = co_await peer.receive();
    if (got.error == std::errc::operation_canceled)
      continue;  // a drain: the deadline is near enough
    if (got.error || got.end()) break;
    dropped += got.bytes.size();
  }
}

/// The socket of a connection, and its waits. `Sockets` is a socket with the members of
/// bwos::stream, the kind of coroutine that can wait for it, and ways to give up the thread: see
/// reactor_sockets.hpp.
template <class Sockets>
class connection_base {
 public:
  using clock = std::chrono::steady_clock;
  using socket = typename Sockets::socket;
  template <class T>
  using coroutine = typename Sockets::template coroutine<T>;

  [[nodiscard]] auto receive() { return socket_.receive(); }
  [[nodiscard]] auto yield() { return Sockets::yield(socket_, workers_); }
  [[nodiscard]] auto lane(metrics::ticks since = 0) {
    return Sockets::lane(socket_, workers_, since);
  }
  [[nodiscard]] auto linger() { return server::linger<Sockets>(socket_); }

  [[nodiscard]] bool has_unsent() const noexcept { return !unsent_.empty(); }
  [[nodiscard]] auto send_unsent() { return socket_.send(std::as_bytes(std::span(unsent_))); }

 protected:
  connection_base(socket taken, executor& workers) noexcept
      : socket_(std::move(taken)), workers_(workers) {}

  /// Of send_unsent(): `close`, or what was wanted.
  next took(const sent& what, next then, metrics::slot& counters) noexcept {
    std::string().swap(unsent_);
    if (what.error == std::errc::timed_out) {
      counters.timed_out(metrics::timeout::write);
      socket_.reset_on_close();  // it would take no more of what is left in the socket either
    }
    return what.error ? next::close : then;
  }

  /// A peer that sends without a pause would never let its worker wait: it gives way now and then.
  next be_fair(std::size_t received_bytes, next then) noexcept {
    bulk_bytes_ = received_bytes < input_bytes_bulk ? 0 : bulk_bytes_ + received_bytes;
    if (bulk_bytes_ < input_bytes_max || then != next::receive) return then;
    bulk_bytes_ = 0;
    return next::go_on;
  }

  socket socket_;
  std::string unsent_;  // written, not yet taken by the kernel

 private:
  executor& workers_;
  std::size_t bulk_bytes_ = 0;
};

/// A coroutine of its own, as linger() is: connections that need neither do not carry their frames.
template <class Connection>
typename Connection::template coroutine<next> send_rest(Connection& of, next then) {
  of.set_write_deadline();
  const sent what = co_await of.send_unsent();
  co_return of.take_sent(what, then);
}

/// The life of a connection. `Connection` is a connection_base with
///   begin()           what it does first
///   take(received)    what came, or why nothing did
///   go_on()           its turn has come: after yield() or lane()
///   set_write_deadline(), take_sent(sent, next)    around send_unsent()
///   other()           if it gives `other`: the coroutine of the protocol that takes the socket
///   lost(), has_running(), handlers_end(), bury()  if its handlers may outlive the socket's use
/// All but the coroutines are plain functions, which alone touch what belongs to the worker (C1).
template <class Connection, class Shared, class... Rest>
typename Connection::template coroutine<void> serve_as(typename Connection::socket peer,
                                                       const Shared& shared, Rest... rest) {
  try {
    Connection served(std::move(peer), shared, std::move(rest)...);
    try {
      auto then = served.begin();
      for (;;) {  // ends: every wait has a deadline, but those for handlers
        if (served.has_unsent()) then = co_await send_rest(served, then);
        if (then == next::receive) {
          const received got = co_await served.receive();
          then = served.take(got);
        } else if (then == next::go_on) {
          co_await served.yield();
          then = served.go_on();
        } else if (then == next::lane) {
          co_await served.lane();
          then = served.go_on();
        } else if (then == next::linger) {
          co_await served.linger();
          then = next::close;
        } else {
          break;
        }
      }
      if constexpr (requires { served.other(); }) {
        if (then == next::other) co_await served.other();
      }
    } catch (const std::bad_alloc&) {
      // For this connection's bytes: it is closed, as it goes out of scope, and the others live.
      shared.metrics.here().out_of_memory();
    }
    if constexpr (requires { served.has_running(); }) {
      served.lost();
      while (served.has_running()) {  // ends: they are cancelled
        co_await served.handlers_end();
        served.bury();
      }
    }
  } catch (const std::bad_alloc&) {
    shared.metrics.here().out_of_memory();
  }
}

}  // namespace bwos::server
