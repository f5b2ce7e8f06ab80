// SPDX-License-Identifier: Apache-2.0
// An HTTP/2 connection without its socket: its session, its streams, its clock. Bytes of one
// receive are fed, then all streams that they completed are run, then what is to be sent is pulled,
// once.
//
// One runner at a time: whoever runs the connection. Other threads only end streams that were
// handed on, through give_back().
#pragma once

#include <atomic>
#include <bwos/stream.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "base/access_log.hpp"
#include "base/counters.hpp"
#include "base/drain.hpp"
#include "http/h2/clock.hpp"
#include "http/h2/requests.hpp"
#include "http/h2/session.hpp"
#include "http/h2/streams.hpp"
#include "net/byte_buffer.hpp"
#include "net/executor.hpp"
#include "net/memory_budget.hpp"
#include "net/reply_inbox.hpp"

namespace bwos::server::h2 {

/// What the HTTP/2 connections of a port have in common. Outlives them.
struct common {
  executor& workers;
  const drain_state& drain;
  metrics::registry& metrics;
  const limits& bounds;
  /// Set once, before every connection is interrupted, which tells who has missed it, and behind
  /// the drain's bell.
  const std::atomic<bool>& leaving;
  memory_budget& memory;
  const call_factory* calls = nullptr;  ///< Null: it has none.
  access_log* log = nullptr;            ///< Where every stream's end is noted, if any.
  /// While the server drains, and is not leaving yet (--drain-delay), GOAWAY follows an answer, as
  /// HTTP/1's answers close their connections then. Else it waits until the server leaves.
  bool parts_behind_answers = false;
};

class endpoint final : application {
 public:
  using clock = std::chrono::steady_clock;

  /// `waker`: of the connection's socket. With `http` its routes are served, too; null: calls
  /// alone. `hands_on`: its runner waits for what runs elsewhere (has_running()), so that a request
  /// may go to the lane by itself. `socket`: its descriptor, which outlives the endpoint; below 0:
  /// it has none. Throws std::bad_alloc.
  endpoint(const common& of, stream_waker waker, clock::time_point now,
           const h1::common* http = nullptr, bool hands_on = true, int socket = -1);
  endpoint(const endpoint&) = delete;
  endpoint& operator=(const endpoint&) = delete;
  /// The runner: once has_running() is false. When the threads have been joined: any time.
  ~endpoint();

  // The runner. All but lost() may throw std::bad_alloc; then lost() is next.

  /// What was received. `bytes` must stay valid until it returns. The connection's turn begins:
  /// once its slice is spent, has_left().
  void feed(std::span<const std::byte> bytes, clock::time_point now);
  /// The same, within the turn.
  void feed_more(std::span<const std::byte> bytes, clock::time_point now);
  /// What was left, what streams that were handed on gave back since, and whatever is due. A turn
  /// begins.
  void look(clock::time_point now);
  /// Streams have to wait for the connection's next turn: look() then.
  [[nodiscard]] bool has_left() const noexcept;
  /// Some were left when the batch before was over: nothing has been received since.
  [[nodiscard]] bool owes() const noexcept { return owes_; }
  /// Of the requests.
  [[nodiscard]] rest left() const noexcept { return requests_ ? requests_->left() : rest::nothing; }
  /// See session::pull().
  [[nodiscard]] bool pull(byte_buffer& to);
  /// When look() is wanted at the latest.
  [[nodiscard]] clock::time_point deadline() const noexcept;
  /// Since when no stream has been open; the last of times: one is, or begins.
  [[nodiscard]] clock::time_point idle_since() const noexcept;
  /// Others want the connection's place: it ends, if it is idle yet.
  void make_way();
  /// Nothing more to receive or to send.
  [[nodiscard]] bool is_over() const noexcept { return session_.is_over(); }
  /// The connection has ended: every call is cancelled. What runs goes on until it ends.
  void lost() noexcept;
  [[nodiscard]] bool has_running() const noexcept { return running_ > 0; }
  /// After lost(): what has ended.
  void bury() noexcept;
  [[nodiscard]] reply_inbox& inbox() noexcept { return inbox_; }

  // For its kinds of streams.

  [[nodiscard]] const common& of() const noexcept { return common_; }
  [[nodiscard]] h2::session& session() noexcept { return session_; }
  [[nodiscard]] const h2::session& session() const noexcept { return session_; }
  /// Within feed(): a stream that has turned out to be a call.
  [[nodiscard]] stream& open_call();
  /// Whether a POST with this content type is a call here.
  [[nodiscard]] bool has_calls() const noexcept { return calls_ != nullptr; }
  [[nodiscard]] bool hands_on() const noexcept { return hands_on_; }
  /// limits::handlers_max are not elsewhere already: handlers that have suspended, and requests in
  /// the lane. With `room` for so many more.
  [[nodiscard]] bool may_hand_on(std::size_t room = 0) const noexcept {
    return running_ + room < common_.bounds.handlers_max;
  }
  void one_handed_on() noexcept { ++running_; }
  void one_came_back() noexcept { --running_; }
  /// When the threads have been joined: it will never be run.
  void one_discarded() noexcept;
  /// A stream has got its answer.
  void note_answer() noexcept { has_answered_ = true; }
  /// The server leaves, and the peer has been told, and what it began before has come.
  [[nodiscard]] bool has_left_for_good() const noexcept;

  /// Any thread, which has handled `what`: its runner goes on with it. Both may be gone afterwards.
  void give_back(handed_on_stream& what) noexcept;

  [[nodiscard]] int socket() const noexcept { return socket_; }

  // What the connection keeps, as --memory-max bounds it.

  [[nodiscard]] memory_account& memory() noexcept { return memory_; }
  /// `more` bytes of bodies are about to be kept. False: there is no memory for them.
  [[nodiscard]] bool may_keep(std::size_t more) noexcept {
    return memory_.set(memory::bodies, body_bytes() + more);
  }
  /// Some of them are kept no more.
  void keeps_less() noexcept { memory_.set_anyway(memory::bodies, body_bytes()); }
  /// The header of a stream has come. False: there is no memory for it.
  [[nodiscard]] bool may_keep_header() noexcept {
    return memory_.set(memory::headers, session_.header_bytes_kept());
  }
  /// `more` bytes of answers are about to wait. False: there is no memory for them, or those that
  /// wait already.
  [[nodiscard]] bool may_answer(std::size_t more = 0) noexcept {
    return memory_.set(memory::output, session_.waiting_bytes() + unsent_bytes_ + more);
  }
  /// So much of what was pulled is not sent, and kept by the connection. False: as above; or there
  /// is none for the streams that wait behind it.
  [[nodiscard]] bool may_keep_unsent(std::size_t bytes) noexcept {
    unsent_bytes_ = bytes;
    return may_answer() && has_memory_for_streams_;
  }

 private:
  stream* open() override;
  template <class Do>
  void each_kind(Do what);
  void go(clock::time_point now);
  void take_back();
  void bury(inbox_entry* ended) noexcept;
  void look_after(clock::time_point now);
  void do_what_is(due what);
  [[nodiscard]] clock_facts facts() const noexcept;
  [[nodiscard]] bool leaves() const noexcept;
  [[nodiscard]] std::size_t body_bytes() const noexcept;
  void charge() noexcept;

  const common& common_;
  const stream_waker waker_;
  memory_account memory_;  // of what follows
  h2::session session_;
  std::unique_ptr<stream_kind> calls_;
  std::optional<requests> requests_;
  reply_inbox inbox_;
  inbox_entry* taken_ = nullptr;  // from it, not yet answered; null but within take_back()
  std::size_t running_ = 0;
  std::uint64_t opened_ = 0;
  std::uint64_t opened_before_ = 0;
  clock::time_point now_;  // of the batch
  clock::time_point sweep_at_;
  clock_facts facts_;  // but for those of the moment
  const int socket_;
  std::size_t unsent_bytes_ = 0;
  std::size_t headers_charged_ = 0;
  bool owes_ = false;
  /// Behind the last pull(). Once there was none, until some of the streams have ended.
  bool has_memory_for_streams_ = true;
  const bool hands_on_;
  bool has_answered_ = false;  // a stream, since look_after()
};

}  // namespace bwos::server::h2
