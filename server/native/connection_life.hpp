// SPDX-License-Identifier: Apache-2.0
// The life of an HTTP/2 connection, over whatever sockets: receive, feed the peer, which runs what
// became complete, pull what is to be sent, and one send. As http1/connection_life.hpp, whose
// invariants hold here too:
//
// INVARIANTS
// C1  What belongs to the worker (its output buffer, its counters, the bytes received) is used only
//     inside functions that are no coroutines.
// C2  Before a co_await the worker's buffer has been sent: what the kernel did not take is in
//     unsent_, what nghttp2 holds back stays in its queues.
// C3  Nothing is received while something is unsent: a peer that does not read cannot make the
//     server buffer more. Acknowledgements and answers wait for it then, within their limits.
// C4  The coroutine ends when no handler of it runs: calls refer to the peer, which lies in its
// frame.
#pragma once

#include <bwos/stream.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <new>
#include <string>
#include <utility>

#include "http1/byte_buffer.hpp"
#include "http1/connection_life.hpp"
#include "native/connection.hpp"

namespace bwos::server::native::life {

using clock = std::chrono::steady_clock;

/// Empty. Not inlined, so that no compiler keeps the address of one thread's across a suspension.
[[gnu::noinline]] http1::byte_buffer& this_output() noexcept;

/// What a connection does once everything that it has written is sent.
enum class next : std::uint8_t { receive, go_on, linger, close };

/// Sends in a row, of an answer larger than h2::send_bytes, before others get their turn.
inline constexpr int sends_max = 4;

/// `Sockets`: as http1/connection_life.hpp's; a socket has waker() too.
template <class Sockets>
class connection {
 public:
  using socket = typename Sockets::socket;
  template <class T>
  using coroutine = typename Sockets::template coroutine<T>;

  connection(socket taken, const shared& of)
      : socket_(std::move(taken)), shared_(of), peer_(of, socket_.waker(), clock::now()) {
    set_deadline();
  }

  [[nodiscard]] auto receive() { return socket_.receive(); }
  [[nodiscard]] auto yield() { return Sockets::yield(socket_, shared_.workers); }
  [[nodiscard]] auto linger() { return http1::life::linger<Sockets>(socket_); }
  next take(const received& got);
  next go_on() { return flush(); }
  [[nodiscard]] bool has_unsent() const noexcept { return !unsent_.empty(); }
  coroutine<next> send_rest(next then);

  void lost() noexcept { peer_.lost(); }
  [[nodiscard]] bool has_running() const noexcept { return peer_.has_running(); }
  [[nodiscard]] auto handlers_end() noexcept { return peer_.inbox().wait(); }
  void bury() noexcept { peer_.bury(); }

 private:
  next flush();
  next take_sent(const sent& what, next then);
  next be_fair(std::size_t received_bytes, next then) noexcept;
  void set_deadline() noexcept;

  socket socket_;
  const shared& shared_;
  peer peer_;
  clock::time_point deadline_;
  std::string unsent_;
  std::size_t bulk_bytes_ = 0;
};

// Plain functions: the only ones that touch what belongs to the worker.

template <class Sockets>
next connection<Sockets>::take(const received& got) {
  if (got.error == std::errc::operation_canceled || got.error == std::errc::timed_out) {
    peer_.look(clock::now());
    return flush();
  }
  if (got.error || got.end()) return next::close;
  shared_.metrics.here().count(metrics::grpc::read_batches);
  peer_.feed(got.bytes, clock::now());
  return be_fair(got.bytes.size(), flush());
}

/// Sends what there is, as far as that goes without waiting.
template <class Sockets>
next connection<Sockets>::flush() {
  bool more = true;
  for (int i = 0; more && i < sends_max; ++i) {
    http1::byte_buffer& output = this_output();
    more = peer_.pull(output);
    if (output.empty()) break;
    const sent taken = socket_.try_send(output.bytes());
    shared_.metrics.here().count(metrics::grpc::sends);
    if (taken.error) return next::close;
    if (taken.bytes < output.size()) {
      unsent_.assign(output.view().substr(taken.bytes));
      return next::go_on;
    }
  }
  if (more) return next::go_on;
  set_deadline();
  return peer_.is_over() ? next::linger : next::receive;
}

template <class Sockets>
next connection<Sockets>::take_sent(const sent& what, next then) {
  std::string().swap(unsent_);
  shared_.metrics.here().count(metrics::grpc::sends);
  if (what.error == std::errc::timed_out) {
    shared_.metrics.here().timed_out(metrics::timeout::write);
    socket_.reset_on_close();  // it would take no more of what is left in the socket either
  }
  if (what.error) return next::close;
  deadline_ = {};
  return then;
}

/// A peer that sends without a pause would never let its worker wait: it gives way now and then.
template <class Sockets>
next connection<Sockets>::be_fair(std::size_t received_bytes, next then) noexcept {
  bulk_bytes_ = received_bytes < input_bytes_bulk ? 0 : bulk_bytes_ + received_bytes;
  if (bulk_bytes_ <= input_bytes_max || then != next::receive) return then;
  bulk_bytes_ = 0;
  return next::go_on;
}

template <class Sockets>
void connection<Sockets>::set_deadline() noexcept {
  const clock::time_point wanted = peer_.deadline();
  if (wanted == deadline_) return;
  deadline_ = wanted;
  socket_.deadline(wanted);
}

// Coroutines.

/// A coroutine of its own: connections that do not need it do not carry its frame.
template <class Sockets>
typename Sockets::template coroutine<next> connection<Sockets>::send_rest(next then) {
  socket_.deadline(clock::now() + shared_.http2.write_timeout);
  const sent what = co_await socket_.send(std::as_bytes(std::span(unsent_)));
  co_return take_sent(what, then);
}

template <class Sockets>
typename Sockets::template coroutine<void> serve(typename Sockets::socket socket,
                                                 const shared& of) {
  try {
    connection<Sockets> served(std::move(socket), of);
    try {
      auto then = next::receive;
      while (then != next::close) {  // ends: every wait has a deadline, but those for calls
        if (then == next::receive) {
          const received got = co_await served.receive();
          then = served.take(got);
        } else if (then == next::go_on) {
          co_await served.yield();
          then = served.go_on();
        } else {
          served.lost();
          co_await served.linger();
          then = next::close;
        }
        if (served.has_unsent()) then = co_await served.send_rest(then);
      }
    } catch (const std::bad_alloc&) {
      of.metrics.here().out_of_memory();  // this connection ends, and the others live
    }
    served.lost();
    while (served.has_running()) {  // ends: they are cancelled
      co_await served.handlers_end();
      served.bury();
    }
  } catch (const std::bad_alloc&) {
    of.metrics.here().out_of_memory();
  }
}

}  // namespace bwos::server::native::life
