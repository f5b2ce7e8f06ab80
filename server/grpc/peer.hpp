// SPDX-License-Identifier: Apache-2.0
// A peer on one connection: its session and its calls, without the socket. Bytes of one receive are
// fed, then all calls that they completed are run, then what is to be sent is pulled, once.
//
// One runner at a time: whoever runs the connection. Other threads only end calls whose handlers
// had suspended, through inbox().
#pragma once

#include <bwos/stream.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "base/access_log.hpp"
#include "base/counters.hpp"
#include "grpc/batch_turn.hpp"
#include "grpc/call.hpp"
#include "grpc/limits.hpp"
#include "grpc/methods.hpp"
#include "grpc/receive_budget.hpp"
#include "http/h2/requests.hpp"
#include "http/h2/session.hpp"
#include "net/executor.hpp"
#include "net/queue_age.hpp"
#include "net/reply_inbox.hpp"

namespace bwos::server::native {

/// What all peers of a server share. Outlives them.
struct shared {
  executor& workers;
  const drain_state& drain;
  metrics::registry& metrics;
  const method_table& methods;
  const h2::limits& http2;
  const call_limits& calls;
  /// Set once, before every connection is interrupted, which tells who has missed it, and behind
  /// the drain's bell.
  const std::atomic<bool>& leaving;
  access_log* log = nullptr;  ///< Where every call's end is noted, if any.
  /// While the server drains, and is not leaving yet (--drain-delay), GOAWAY follows an answer, as
  /// HTTP/1's answers close their connections then. Else it waits until the server leaves.
  bool parts_behind_answers = false;
  const queue_age_bound* queue_age = nullptr;  ///< Of calls; null: they may wait as they must.
};

class peer final : h2::application {
 public:
  using clock = std::chrono::steady_clock;

  /// `waker`: of the connection's socket. With `http` its routes are served too, and null: calls
  /// alone. `hands_on`: its runner waits for what runs elsewhere (has_running()), so that a request
  /// may go to the lane by itself. Throws std::bad_alloc.
  peer(const shared& of, stream_waker waker, clock::time_point now,
       const http1::context* http = nullptr, bool hands_on = true);
  peer(const peer&) = delete;
  peer& operator=(const peer&) = delete;
  /// The runner: once has_running() is false. When the threads have been joined: any time.
  ~peer();

  // The runner. All but lost() may throw std::bad_alloc; then lost() is next.

  /// What was received. `bytes` must stay valid until it returns. The connection's turn begins:
  /// once its slice is spent, has_left().
  void feed(std::span<const std::byte> bytes, clock::time_point now);
  /// The same, within the turn.
  void feed_more(std::span<const std::byte> bytes, clock::time_point now);
  /// What was left, what calls that had suspended gave back since, and whatever is due. A turn
  /// begins.
  void look(clock::time_point now);
  /// Calls or requests have to wait for the connection's next turn: look() then.
  [[nodiscard]] bool has_left() const noexcept {
    return has_ready() || left() != http2::requests::rest::nothing;
  }
  /// Some were left when the batch before was over: nothing has been received since.
  [[nodiscard]] bool owes() const noexcept { return owes_; }
  /// Of the HTTP requests.
  [[nodiscard]] http2::requests::rest left() const noexcept {
    return requests_ ? requests_->left() : http2::requests::rest::nothing;
  }
  /// See h2::session::pull().
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

  // For requests_.

  /// Within feed(): a stream that has turned out to be a call.
  [[nodiscard]] h2::stream& open_call();
  [[nodiscard]] bool hands_on() const noexcept { return hands_on_; }
  [[nodiscard]] bool may_hand_on() const noexcept { return running_ < shared_.calls.handlers_max; }
  void one_handed_on() noexcept { ++running_; }
  void one_came_back() noexcept { --running_; }
  /// When the threads have been joined: it will never be run.
  void one_discarded() noexcept;
  /// A stream has got its answer.
  void note_answer() noexcept { has_answered_ = true; }

  /// Any thread, which has handled `what`: its runner goes on with it. Both may be gone afterwards.
  void give_back(inbox_entry& what) noexcept;

  /// Of the connection, for the access log; below 0 where there is none.
  [[nodiscard]] int socket() const noexcept { return socket_; }
  void socket(int fd) noexcept { socket_ = fd; }

 private:
  friend class call;
  enum class leave : std::uint8_t { no, noticed, left };

  h2::stream* open() override;
  void complete(call& which);
  [[nodiscard]] bool has_ready() const noexcept {
    return ready_at_ < ready_now_.size() || !ready_.empty();
  }
  void run_ready(clock::time_point now);
  void own_messages();
  [[nodiscard]] bool is_shed(const call& which, clock::time_point now) const noexcept;
  void run(call& which, clock::time_point now, bool is_last);
  void make_room(call& unfinished);
  void took_message(call& which);
  void took(call& which, std::size_t bytes);
  [[nodiscard]] bool admits(call& which);
  void go_on(call& which);
  void look_at(call& which, bool from_inbox);
  void sweep(clock::time_point now);
  void sweep(call& which, clock::time_point now);
  void take_replies();
  void bury(inbox_entry* ended) noexcept;
  void ended(call& which);
  void count_end(call& which) noexcept;
  void expire_calls(clock::time_point now);
  void settle(clock::time_point now);
  void look_after(clock::time_point now);
  void go(clock::time_point now);
  void renew(clock::time_point now) noexcept;
  [[nodiscard]] bool leaves() const noexcept;
  bool end_lasting();
  void answered(call& which) noexcept;
  void release(call& which) noexcept;
  void discarded(call& which) noexcept;
  void count(metrics::grpc what) const { shared_.metrics.here().count(what); }
  [[nodiscard]] clock::time_point connection_deadline() const noexcept;
  [[nodiscard]] clock::time_point keepalive_deadline() const noexcept;

  const shared& shared_;
  const stream_waker waker_;
  h2::session session_;
  std::optional<http2::requests> requests_;
  reply_inbox inbox_;
  batch_turn turn_;
  inbox_entry* taken_ = nullptr;  // from it, not yet answered; null but within take_replies()
  call* newest_ = nullptr;        // of all calls
  call* borrower_ = nullptr;      // whose message lies in what is being fed
  std::vector<call*> ready_;      // complete, in order; or whose handler may go on
  std::vector<call*> ready_now_;  // those that run_ready() is at, or has left for the next turn
  std::size_t ready_at_ = 0;      // the first of them
  std::string written_;           // by a handler, on its way to the session
  std::set<std::pair<clock::time_point, call*>> deadlines_;  // of those that outlive their batch
  std::size_t running_ = 0;  // handlers that have suspended, and requests in the lane
  receive_budget budget_;
  std::vector<std::pair<const method*, std::size_t>>
      bounded_;  // methods with a calls_max: its calls
  std::uint64_t batch_ = 0;
  std::uint64_t opened_ = 0;
  std::uint64_t opened_before_ = 0;
  clock::time_point now_;        // of the batch
  clock::time_point began_;      // the connection
  clock::time_point heard_;      // of the peer, last
  clock::time_point probed_at_;  // if probed_
  clock::time_point idle_since_;
  clock::time_point age_end_;
  clock::time_point leave_at_;
  clock::time_point cut_at_ = clock::time_point::max();  // what of its calls goes on after its age
  clock::time_point sweep_at_;
  clock::time_point renewed_;  // when calls or requests had to wait last, and nobody read
  int socket_ = -1;
  leave leave_ = leave::no;
  bool probed_ = false;
  bool owes_ = false;
  const bool hands_on_;
  bool has_answered_ = false;  // a stream, since look_after()
};

}  // namespace bwos::server::native
