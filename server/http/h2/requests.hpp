// SPDX-License-Identifier: Apache-2.0
// HTTP requests on one HTTP/2 connection (RFC 9113, 8): each stream is one, answered by the routes
// that answer HTTP/1.1's, within the same limits. One that turns out to be a call of gRPC goes to
// the peer as such. One of a route that is long goes to the lane by itself, and its answer comes
// back through the peer's inbox.
//
// One thread at a time: the runner of the connection; but a request in the lane is read by the
// thread that answers it, and its runner changes nothing of it meanwhile.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "http/h1/connection.hpp"
#include "http/h2/session.hpp"
#include "net/reply_inbox.hpp"

namespace bwos::server::native {
class peer;
}  // namespace bwos::server::native

namespace bwos::server::http2 {

class requests;

/// A request, from its stream's header to its answer. Its owner's alone to use.
class exchange final : public h2::stream {
 public:
  using clock = std::chrono::steady_clock;

  explicit exchange(requests& in) noexcept;
  ~exchange();

 private:
  friend class requests;
  struct long_run;

  void on_field(std::string_view name, std::string_view value) override;
  void on_header(bool too_large) override;
  void on_data(std::span<const std::byte> bytes, bool last) override;
  void on_end() override;
  void on_closed(h2::error why) override;
  std::span<const h2::field> trailers() override { return {}; }

  void read_method(std::string_view value);
  void read_host(std::string_view value);
  void read_length(std::string_view value);
  void read_expect(std::string_view value);
  void object(status why) noexcept;
  [[nodiscard]] request asked() const noexcept;
  void refuse(status why);
  void answer(const response& what);
  void note(const response& what) const;

  requests& in_;
  std::unique_ptr<long_run> run_;  // while it is in the lane, and until its answer is taken back
  exchange* newer_ = nullptr;      // of all of a connection
  exchange* older_ = nullptr;
  exchange* next_ready_ = nullptr;
  exchange* sooner_ = nullptr;  // of those whose body is waited for
  exchange* later_ = nullptr;
  clock::time_point deadline_;  // of its body
  clock::time_point taken_up_;  // its header's end, or all of it
  std::string target_;
  std::string content_type_;
  std::string content_;
  std::string fields_;  // name, zero, value, zero, ...: while it may be a call yet
  std::string more_name_;
  std::array<char, 20> length_;  // the answer's
  std::array<char, 29> date_;
  method verb_ = method::other;
  status objection_ = status::ok;
  std::size_t dropped_bytes_ = 0;  // of a body that came behind the answer
  bool may_be_call_ = false;
  bool expects_continue_ = false;
  bool waits_ = false;     // for its body
  bool ready_ = false;     // stands in the list of those to be answered
  bool open_ = true;       // the stream is, until on_closed()
  bool answered_ = false;  // or as good as
};

/// All of a connection's.
class requests {
 public:
  using clock = exchange::clock;

  /// What is left when a turn is over: nothing; some, for others had to wait long enough; a long
  /// one, where the whole connection has to go to the lane with it.
  enum class rest : std::uint8_t { nothing, some, long_one };

  requests(native::peer& of, h2::session& session, const http1::context& shared) noexcept
      : peer_(of), session_(session), shared_(shared) {}
  requests(const requests&) = delete;
  requests& operator=(const requests&) = delete;
  ~requests();

  // May throw std::bad_alloc; then the connection ends.

  [[nodiscard]] h2::stream* open();
  /// Answers what is complete, as long as its turn lasts, and whose body comes too late. After a
  /// `long_one` this is its turn: the first that it answers.
  rest run(clock::time_point now);

  [[nodiscard]] rest left() const noexcept { return left_; }
  /// Of the peer's inbox: one that was in the lane is answered.
  void take(inbox_entry& ended);
  /// The connection has ended: what is in the lane is not run any more.
  void lost() noexcept;
  /// Behind that, of the peer's inbox.
  void bury(inbox_entry& ended) noexcept;
  /// Behind session::watch_windows(): gives up answers that their windows do not let go
  /// (--write-timeout).
  void sweep();
  /// When run() is wanted at the latest, though nothing comes.
  [[nodiscard]] clock::time_point deadline() const noexcept {
    return soonest_ == nullptr ? clock::time_point::max() : soonest_->deadline_;
  }
  /// One of the connection's deadlines has passed.
  void count_timeout(metrics::timeout which) const { shared_.metrics.here().timed_out(which); }

 private:
  friend class exchange;

  rest run_ready(clock::time_point now);
  void hand_on(exchange& which, std::size_t route);
  void expire(clock::time_point now);
  void renew(clock::time_point now) noexcept;
  void invite();
  void complete(exchange& which) noexcept;
  void wait_for_body(exchange& which) noexcept;
  void wait_no_more(exchange& which) noexcept;
  [[nodiscard]] bool keep(exchange& which, std::string_view bytes);
  void drop_content(exchange& which) noexcept;
  [[nodiscard]] bool is_busy() const noexcept;
  void hand_over(exchange& call);
  void release(exchange& which) noexcept;

  native::peer& peer_;
  h2::session& session_;
  const http1::context& shared_;
  exchange* newest_ = nullptr;
  exchange* ready_ = nullptr;  // the first of them
  exchange** ready_end_ = &ready_;
  exchange* soonest_ = nullptr;
  exchange* latest_ = nullptr;
  std::size_t content_bytes_ = 0;  // of all
  rest left_ = rest::nothing;
  bool awaits_continue_ = false;  // one of those whose body is waited for does
};

}  // namespace bwos::server::http2
