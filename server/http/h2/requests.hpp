// SPDX-License-Identifier: Apache-2.0
// HTTP requests on one HTTP/2 connection (RFC 9113, 8): each stream is one, answered by the routes
// that answer HTTP/1.1's, within the same limits. One that turns out to be a call of gRPC goes to
// the connection's calls. One of a route that is long goes to the lane by itself, and its answer
// comes back through the connection's inbox.
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
#include "http/h2/streams.hpp"
#include "net/byte_buffer.hpp"
#include "net/reply_inbox.hpp"

namespace bwos::server::h2 {

class endpoint;
class requests;

/// A request, from its stream's header to its answer. Its owner's alone to use.
class request_stream final : public stream {
 public:
  using clock = std::chrono::steady_clock;

  explicit request_stream(requests& in) noexcept;
  ~request_stream();

 private:
  friend class requests;
  struct long_run;

  void on_field(std::string_view name, std::string_view value) override;
  void on_header(bool too_large) override;
  void on_data(std::span<const std::byte> bytes, bool last) override;
  void on_end() override;
  void on_closed(error why) override;
  void on_sent(std::size_t bytes) override;
  std::span<const field> trailers() override { return {}; }

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
  std::unique_ptr<long_run> run_;    // while it is in the lane, and until its answer is taken back
  request_stream* newer_ = nullptr;  // of all of a connection
  request_stream* older_ = nullptr;
  request_stream* next_ready_ = nullptr;
  request_stream* sooner_ = nullptr;  // of those whose body is waited for
  request_stream* later_ = nullptr;
  clock::time_point deadline_;  // of its body
  clock::time_point taken_up_;  // its header's end, or all of it
  std::string target_;
  std::string content_type_;
  std::size_t content_length_ = 0;  // as its header has it; 0: it does not say
  byte_buffer content_;             // its body; until on_closed(), if the answer lies there
  std::size_t content_room_ = 0;    // of content_, as it counts in body_bytes()
  std::string fields_;              // name, zero, value, zero, ...: while it may be a call yet
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
  bool lends_ = false;     // the answer lies in content_
};

/// All of a connection's.
class requests final : public stream_kind {
 public:
  using clock = request_stream::clock;

  requests(endpoint& of, const h1::common& common) noexcept;
  ~requests() override;

  [[nodiscard]] stream& open() override;
  /// Answers what is complete, as long as its turn lasts, and whose body comes too late. After a
  /// `long_one` this is its turn: the first that it answers.
  void run(clock::time_point now) override;
  [[nodiscard]] rest left() const noexcept override { return left_; }
  void renew(clock::time_point now) noexcept override;
  void take(inbox_entry& ended) override;
  /// What is in the lane is not run any more.
  void lost() noexcept override;
  void bury(inbox_entry& ended) noexcept override;
  /// Gives up answers that their windows do not let go (--write-timeout).
  void sweep(clock::time_point now) override;
  [[nodiscard]] clock::time_point deadline() const noexcept override {
    return soonest_ == nullptr ? clock::time_point::max() : soonest_->deadline_;
  }
  /// Memory of bodies. What waits to be sent of answers that lie there is not in it: the session
  /// counts that.
  [[nodiscard]] std::size_t body_bytes() const noexcept { return content_bytes_ + lent_bytes_; }
  /// One of the connection's deadlines has passed.
  void count_timeout(metrics::timeout which) const { common_.metrics.here().timed_out(which); }

 private:
  friend class request_stream;

  rest run_ready(clock::time_point now);
  void hand_on(request_stream& which, std::size_t route);
  void expire(clock::time_point now);
  void invite();
  void complete(request_stream& which) noexcept;
  void wait_for_body(request_stream& which) noexcept;
  void wait_no_more(request_stream& which) noexcept;
  [[nodiscard]] bool keep(request_stream& which, std::string_view bytes);
  void lend_content(request_stream& which, std::size_t bytes) noexcept;
  void drop_content(request_stream& which) noexcept;
  [[nodiscard]] bool is_busy() const noexcept;
  void hand_over(request_stream& call);
  void release(request_stream& which) noexcept;

  endpoint& at_;
  session& session_;
  const h1::common& common_;
  request_stream* newest_ = nullptr;
  request_stream* ready_ = nullptr;  // the first of them
  request_stream** ready_end_ = &ready_;
  request_stream* soonest_ = nullptr;
  request_stream* latest_ = nullptr;
  std::size_t content_bytes_ = 0;  // room of those that no answer lies in
  std::size_t lent_bytes_ = 0;     // room of the others
  rest left_ = rest::nothing;
  bool awaits_continue_ = false;  // one of those whose body is waited for does
};

}  // namespace bwos::server::h2
