// SPDX-License-Identifier: Apache-2.0
// What the streams of an HTTP/2 connection are to it: requests, or calls of gRPC.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string_view>

#include "http/h2/session.hpp"
#include "net/reply_inbox.hpp"

namespace bwos::server::h2 {

class endpoint;

/// What is left when a connection's turn is over: nothing; some, for others had to wait long
/// enough; a long one, where the whole connection has to go to the lane with it.
enum class rest : std::uint8_t { nothing, some, long_one };

/// All streams of one kind of a connection. Its members are called by the connection's runner, one
/// thread at a time; those that are not noexcept may throw std::bad_alloc, and then lost() is next.
class stream_kind {
 public:
  using clock = std::chrono::steady_clock;

  stream_kind(const stream_kind&) = delete;
  stream_kind& operator=(const stream_kind&) = delete;
  virtual ~stream_kind() = default;

  /// The peer opens one.
  [[nodiscard]] virtual stream& open() = 0;

  /// A turn of the connection begins.
  virtual void begin_turn() noexcept {}
  /// In a turn: bytes are about to be fed, or it is only looked after.
  virtual void begin_batch(clock::time_point /*now*/) noexcept {}
  /// Runs what is complete, as long as the turn lasts.
  virtual void run(clock::time_point now) = 0;
  /// Of run(), for the next turn.
  [[nodiscard]] virtual rest left() const noexcept = 0;
  /// Pulling has made some complete, and the turn goes on: then run_pulled() runs them.
  [[nodiscard]] virtual bool has_pulled() noexcept { return false; }
  virtual void run_pulled(clock::time_point /*now*/) {}
  /// While others were owed a turn nothing was read: what the peer has sent meanwhile is not late.
  virtual void renew(clock::time_point /*now*/) noexcept {}
  /// Behind run(): ends what is late, and notes what it waits for from now on.
  virtual void settle(clock::time_point /*now*/) {}
  /// What was fed goes away: nothing refers to it any more.
  virtual void let_go_of_input() {}

  /// One that was handed on has ended.
  virtual void take(inbox_entry& ended) = 0;
  /// Likewise, behind lost().
  virtual void bury(inbox_entry& ended) noexcept = 0;
  /// Now and then, behind session::watch_windows(): what takes too long ends.
  virtual void sweep(clock::time_point now) = 0;
  /// When settle() is wanted at the latest, though nothing comes.
  [[nodiscard]] virtual clock::time_point deadline() const noexcept = 0;
  /// Of a connection that leaves: ends those that their peers keep open for as long as they are
  /// there, if no others are left. False: there are none, or it is too early.
  virtual bool end_lasting() { return false; }
  /// The connection has had no stream for a while.
  virtual void give_back_memory() noexcept {}
  /// The connection has ended: nobody wants an answer any more.
  virtual void lost() noexcept = 0;
  /// When the threads have been joined: nobody takes this one any more.
  virtual void forget(inbox_entry& ended) noexcept { bury(ended); }

 protected:
  stream_kind() = default;
};

/// A stream that was handed on, on its way back through the connection's inbox.
struct handed_on_stream : inbox_entry {
  explicit handed_on_stream(stream_kind& of) noexcept : kind(&of) {}
  stream_kind* kind;
};

/// Makes the calls of connections; they are gRPC's. Outlives the connections. Any thread.
class call_factory {
 public:
  /// Whether a POST of this content type is one.
  [[nodiscard]] virtual bool is_call(std::string_view content_type) const noexcept = 0;
  /// Throws std::bad_alloc.
  [[nodiscard]] virtual std::unique_ptr<stream_kind> make_calls(endpoint& of) const = 0;

 protected:
  ~call_factory() = default;
};

}  // namespace bwos::server::h2
