// SPDX-License-Identifier: Apache-2.0
// A connection as its loop has it (connection_loop.hpp): what it makes of the bytes that come, and
// what it does with its socket. Protocols derive from it; they wait for nothing themselves.
//
// INVARIANTS
// C1  What belongs to the worker (its buffers, its counters, the bytes received unless they lie in
//     room().into) is used only inside functions that are no coroutines: after a co_await the
//     connection may be on another worker. room().into belongs to the connection, which leaves it
//     as it is until the receive has completed.
// C2  Before a co_await the worker's output buffer has been sent, and what was to be sent behind
//     it: what the kernel did not take is in unsent_, what was received and not parsed the protocol
//     keeps.
// C3  Nothing is received while something is unsent: a peer that does not read cannot make the
//     server buffer more.
#pragma once

#include <bwos/stream.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/counters.hpp"
#include "base/ticks.hpp"
#include "net/byte_buffer.hpp"
#include "net/executor.hpp"
#include "net/kept_buffers.hpp"
#include "net/limits.hpp"
#include "net/memory_budget.hpp"
#include "net/reply_inbox.hpp"

namespace bwos::server {

/// What a connection does with its socket, but for what it waits for. bwos::stream says what each
/// does, and by whom it may be called.
class socket {
 public:
  using clock = std::chrono::steady_clock;

  virtual sent try_send(std::span<const std::byte> bytes,
                        std::span<const std::byte> behind) noexcept = 0;
  virtual void deadline(clock::time_point when) noexcept = 0;
  virtual void idle(clock::time_point since, clock::time_point until) noexcept = 0;
  virtual void reset_on_close() noexcept = 0;
  [[nodiscard]] virtual int native_handle() const noexcept = 0;
  /// Nothing: its receive cannot be ended by others, so that all of its connection runs where its
  /// loop does.
  [[nodiscard]] virtual std::optional<stream_waker> waker() const noexcept = 0;

 protected:
  ~socket() = default;
};

/// What the loop does once everything that a connection has written is sent. `lane`: as go_on, but
/// through the executor's lane of long work. `other`: other() takes over.
enum class next : std::uint8_t { receive, go_on, lane, linger, other, close };

/// All members: the connection's runner, which is the loop. Those that may throw throw
/// std::bad_alloc, which ends the connection.
class connection {
 public:
  using clock = std::chrono::steady_clock;

  connection(const connection&) = delete;
  connection& operator=(const connection&) = delete;
  virtual ~connection() = default;

  /// What it does first.
  [[nodiscard]] virtual next begin() { return next::receive; }
  /// Where it would have the next bytes, and how many at most. Called before each receive.
  [[nodiscard]] virtual receive_room room() { return {}; }
  /// What came, or why nothing did.
  [[nodiscard]] virtual next take(const received& got) = 0;
  /// Its turn has come: after `go_on` or `lane`.
  [[nodiscard]] virtual next go_on() = 0;
  /// Before unsent() is sent.
  virtual void set_write_deadline() noexcept = 0;
  /// Behind that. `then`: what it had wanted to do.
  [[nodiscard]] virtual next take_sent(const sent& what, next then) = 0;
  /// After `other`: what goes on with the socket, with begin(), in its place.
  [[nodiscard]] virtual std::unique_ptr<connection> other() { return nullptr; }
  /// When what goes to the lane began to wait: lane_entry::since.
  [[nodiscard]] virtual ticks lane_since() const noexcept { return 0; }
  /// Nobody needs its answers any more: before its socket lingers, and when it has ended.
  virtual void lost() noexcept {}

  // Of those whose handlers may outlive the socket's use. Behind lost():

  [[nodiscard]] virtual bool has_running() const noexcept { return false; }
  /// Where handlers say that they have ended; while has_running().
  [[nodiscard]] virtual reply_inbox* inbox() noexcept { return nullptr; }
  /// What has ended is freed.
  virtual void bury() noexcept {}

  [[nodiscard]] std::span<const std::byte> unsent() const noexcept {
    return std::as_bytes(std::span(unsent_));
  }

 protected:
  explicit connection(socket& on) noexcept : socket_(on) {}

  /// What the kernel did not take, of two pieces that belong to others. buffer_bytes() of it are
  /// charged.
  void keep_unsent(std::string_view bytes, std::string_view behind, memory_budget& memory) {
    unsent_in_ = take_buffer(bytes.size() + behind.size(), memory);
    unsent_in_.append(bytes);
    unsent_in_.append(behind);
    unsent_ = unsent_in_.view();
  }
  /// The same, where it may stay where it lies. All of that is charged.
  void keep_unsent(std::string_view bytes, byte_buffer in) noexcept {
    unsent_in_ = std::move(in);
    unsent_ = bytes;
  }

  /// Of what take_sent() was told: `close`, or what was wanted.
  next took(const sent& what, next then, metrics::slot& counters, memory_budget& memory) noexcept {
    unsent_ = {};
    put_away(std::move(unsent_in_), memory);
    if (what.error == std::errc::timed_out) {
      counters.timed_out(metrics::timeout::write);
      socket_.reset_on_close();  // it would take no more of what is left in the socket either
    }
    return what.error ? next::close : then;
  }

  /// A peer that sends without a pause would never let its worker wait: it gives way now and then.
  /// `counted`: the bytes of this receive, or fewer where they were little work. `has_paused`: the
  /// peer had no more of them.
  next be_fair(std::size_t counted, bool has_paused, next then) noexcept {
    bulk_bytes_ = has_paused ? 0 : bulk_bytes_ + counted;
    if (bulk_bytes_ < input_bytes_max || then != next::receive) return then;
    bulk_bytes_ = 0;
    return next::go_on;
  }

  socket& socket_;

 private:
  std::string_view unsent_;  // written, not yet taken by the kernel
  byte_buffer unsent_in_;    // where it lies
  std::size_t bulk_bytes_ = 0;
};

/// What the connections of a port are. Outlives them all. Any thread.
class connection_factory {
 public:
  connection_factory(executor& where, metrics::registry& counters) noexcept
      : workers(where), counters(counters) {}
  connection_factory(const connection_factory&) = delete;
  connection_factory& operator=(const connection_factory&) = delete;

  /// For a socket that was accepted, which outlives the connection. Throws std::bad_alloc.
  [[nodiscard]] virtual std::unique_ptr<connection> connect(socket& accepted) const = 0;
  /// How many of those that are more than the port takes are told so at a time; others are closed
  /// without a word.
  [[nodiscard]] virtual std::size_t refusals_max() const noexcept { return 0; }
  /// Tells one. Throws std::bad_alloc.
  virtual void refuse(socket& /*accepted*/) const {}

  executor& workers;
  metrics::registry& counters;

 protected:
  ~connection_factory() = default;
};

}  // namespace bwos::server
