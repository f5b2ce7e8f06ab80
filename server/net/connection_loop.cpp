// SPDX-License-Identifier: Apache-2.0
#include "net/connection_loop.hpp"

#include <new>
#include <utility>

namespace bwos::server {
namespace {

class stream_socket final : public socket {
 public:
  explicit stream_socket(stream accepted) noexcept : stream_(std::move(accepted)) {}

  sent try_send(std::span<const std::byte> bytes,
                std::span<const std::byte> behind) noexcept override {
    return stream_.try_send(bytes, behind);
  }
  void deadline(clock::time_point when) noexcept override { stream_.deadline(when); }
  void idle(clock::time_point since, clock::time_point until) noexcept override {
    stream_.idle(since, until);
  }
  void reset_on_close() noexcept override { stream_.reset_on_close(); }
  [[nodiscard]] int native_handle() const noexcept override { return stream_.native_handle(); }
  [[nodiscard]] std::optional<stream_waker> waker() const noexcept override {
    return stream_.waker();
  }
  [[nodiscard]] stream& operator*() noexcept { return stream_; }

 private:
  stream stream_;
};

// Coroutines of their own: connections that need neither do not carry their frames.

/// Our last answer is on its way. Closing with unread bytes would reset the connection and could
/// overtake it, so the peer's are read and dropped until it closes, within bounds.
task<void> linger(stream& peer) {
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

task<next> send_rest(stream& to, connection& of, next then) {
  of.set_write_deadline();
  const sent what = co_await to.send(of.unsent());
  co_return of.take_sent(what, then);
}

}  // namespace

task<void> serve(stream accepted, const connection_factory& of) {
  try {
    stream_socket on(std::move(accepted));
    std::unique_ptr<connection> served = of.connect(on);
    try {
      next then = served->begin();
      for (;;) {  // ends: every wait has a deadline, but those for handlers
        if (!served->unsent().empty()) then = co_await send_rest(*on, *served, then);
        if (then == next::receive) {
          const received got = co_await (*on).receive(served->room());
          then = served->take(got);
        } else if (then == next::go_on) {
          co_await of.workers.yield();
          then = served->go_on();
        } else if (then == next::lane) {
          co_await of.workers.lane(served->lane_since());
          then = served->go_on();
        } else if (then == next::linger) {
          served->lost();
          co_await linger(*on);
          then = next::close;
        } else if (then == next::other) {
          served = served->other();
          then = served->begin();
        } else {
          break;
        }
      }
    } catch (const std::bad_alloc&) {
      // For this connection's bytes: it is closed, as it goes out of scope, and the others live.
      of.counters.here().out_of_memory();
    }
    served->lost();
    while (served->has_running()) {  // ends: they are cancelled
      co_await served->inbox()->wait();
      served->bury();
    }
  } catch (const std::bad_alloc&) {
    of.counters.here().out_of_memory();
  }
}

/// A coroutine around the other: without --connections-per-address-max no connection has it.
task<void> serve(stream accepted, const connection_factory& of, address_limit::place /*held*/) {
  try {
    co_await serve(std::move(accepted), of);
  } catch (const std::bad_alloc&) {  // for the other's frame
    of.counters.here().out_of_memory();
  }
}

task<void> refuse(stream accepted, const connection_factory& of) {
  try {
    stream_socket on(std::move(accepted));
    of.refuse(on);
    co_await linger(*on);
  } catch (const std::bad_alloc&) {
    of.counters.here().out_of_memory();
  }
}

}  // namespace bwos::server
