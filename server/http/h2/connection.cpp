// SPDX-License-Identifier: Apache-2.0
// An HTTP/2 connection: feed the endpoint, which runs what became complete, pull what is to be
// sent, and one send. As net/connection.hpp has it; what nghttp2 holds back stays in its queues,
// and acknowledgements and answers wait there, within their limits (C3).
//
// INVARIANT
// C4  What was received and not read, because the turn was over, is in kept_; nothing is received
//     until it has been read.
#include "http/h2/connection.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

#include "http/limits.hpp"
#include "http/worker_local.hpp"
#include "net/byte_buffer.hpp"

namespace bwos::server::h2 {
namespace {

using clock = std::chrono::steady_clock;

/// Empty. Not inlined, so that no compiler keeps the address of one thread's across a suspension.
[[gnu::noinline]] byte_buffer& this_output() noexcept {
  thread_local byte_buffer mine;
  mine.clear(output_bytes_kept);
  return mine;
}

/// Sends in a row, of an answer larger than h2::send_bytes, before others get their turn.
constexpr int sends_max = 4;

/// Turns of sending in a row: then the peer is heard, who may want no more of it. Where calls wait
/// for their turn, so many: where the peer has nothing to say, hearing it takes a millisecond.
constexpr int unheard_turns_max = 4;
constexpr int unheard_turns_of_calls_max = 64;

/// Of gRPC alone; or, with `http`, of its routes too, and with what it began with.
class http2_connection final : public connection {
 public:
  http2_connection(socket& on, const common& of, const h1::common* http, std::string first)
      : connection(on),
        common_(of),
        http_(http),
        first_(std::move(first)),
        endpoint_(of, on.waker().value_or(stream_waker()), clock::now(), http,
                  on.waker().has_value(), on.native_handle()) {
    set_deadline();
  }

  [[nodiscard]] next begin() override;
  [[nodiscard]] next take(const received& got) override;
  [[nodiscard]] next go_on() override;
  void set_write_deadline() noexcept override {
    socket_.deadline(clock::now() + common_.bounds.write_timeout);
  }
  [[nodiscard]] next take_sent(const sent& what, next then) override;
  void lost() noexcept override { endpoint_.lost(); }
  [[nodiscard]] bool has_running() const noexcept override { return endpoint_.has_running(); }
  [[nodiscard]] reply_inbox* inbox() noexcept override { return &endpoint_.inbox(); }
  void bury() noexcept override { endpoint_.bury(); }

 private:
  next feed(std::span<const std::byte> bytes);
  next read(std::span<const std::byte> bytes, clock::time_point now);
  next flush(byte_buffer& output);
  next send_all(byte_buffer& output);
  void count_bytes(const sent& what) const;
  void set_deadline() noexcept;

  const common& common_;
  const h1::common* const http_;
  std::string first_;
  std::string kept_;
  endpoint endpoint_;
  clock::time_point deadline_;
  clock::time_point idle_since_;  // what the socket was told with deadline_
  int unheard_turns_ = 0;         // since it was last listened to
  bool has_ended_ = false;        // the peer sends no more; what it has sent is answered yet
};

next http2_connection::begin() {
  if (first_.empty()) return next::receive;
  const std::string first = std::exchange(first_, {});
  return feed(std::as_bytes(std::span(first)));
}

next http2_connection::take(const received& got) {
  unheard_turns_ = 0;
  if (got.error == std::errc::operation_canceled || got.error == std::errc::timed_out) {
    endpoint_.look(clock::now());
    return flush(this_output());
  }
  if (got.error == std::errc::connection_aborted) {  // others wait for its place
    endpoint_.make_way();
    return flush(this_output());
  }
  if (got.end() &&
      endpoint_.has_left()) {  // it has half-closed: what it sent before is answered yet
    has_ended_ = true;
    endpoint_.look(clock::now());
    return flush(this_output());
  }
  if (got.error || got.end()) return next::close;
  return feed(got.bytes);
}

next http2_connection::go_on() {
  if (!kept_.empty()) {
    const clock::time_point now = clock::now();
    endpoint_.look(now);
    if (endpoint_.has_left()) return flush(this_output());
    const std::string bytes = std::exchange(kept_, {});
    return read(std::as_bytes(std::span(bytes)), now);
  }
  const bool has_left = endpoint_.has_left();
  if (!has_ended_ &&
      ++unheard_turns_ > (has_left ? unheard_turns_of_calls_max : unheard_turns_max)) {
    deadline_ = clock::now();  // what is not there now is not waited for
    socket_.deadline(deadline_);
    return next::receive;
  }
  if (has_left) endpoint_.look(clock::now());
  return flush(this_output());
}

next http2_connection::feed(std::span<const std::byte> bytes) {
  metrics::slot& counters = common_.metrics.here();
  counters.count(metrics::grpc::read_batches);
  if (http_ != nullptr) counters.received(bytes.size());
  const clock::time_point now = clock::now();
  const auto first = bytes.first(std::min(bytes.size(), batch_bytes_max));
  endpoint_.feed(first, now);
  return be_fair(bytes.size(), bytes.size() < input_bytes_bulk,
                 read(bytes.subspan(first.size()), now));
}

/// The rest of what was received, as long as the turn lasts.
next http2_connection::read(std::span<const std::byte> bytes, clock::time_point now) {
  byte_buffer& output = this_output();
  while (!bytes.empty() && !endpoint_.has_left()) {  // ends: it takes some each time
    static_cast<void>(endpoint_.pull(output));       // flush() pulls what it left
    const auto piece = bytes.first(std::min(bytes.size(), batch_bytes_max));
    bytes = bytes.subspan(piece.size());
    endpoint_.feed_more(piece, now);
  }
  kept_.assign(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  return flush(output);
}

next http2_connection::flush(byte_buffer& output) {
  const next then = send_all(output);
  settle(output, common_.memory, thread_buffer::http2_output);
  settle_thread_memory(common_.memory);
  return then;
}

/// Sends what `output` has and what there is to pull, as far as that goes without waiting.
next http2_connection::send_all(byte_buffer& output) {
  bool more = true;
  for (int i = 0; more && i < sends_max; ++i) {
    more = endpoint_.pull(output);
    if (output.empty()) break;
    common_.metrics.here().count(metrics::grpc::sends);  // before anybody can have the bytes
    const sent taken = socket_.try_send(output.bytes(), {});
    count_bytes(taken);
    if (taken.error) return next::close;
    if (taken.bytes < output.size()) {
      const std::string_view rest = output.view().substr(taken.bytes);
      if (!endpoint_.may_keep_unsent(buffer_bytes(rest.size()))) {
        socket_.reset_on_close();
        return next::close;
      }
      keep_unsent(rest, {}, common_.memory);
      return next::go_on;
    }
    output.clear(output_bytes_kept);
  }
  if (more) return next::go_on;
  set_deadline();
  if (endpoint_.is_over()) return next::linger;
  if (endpoint_.left() == rest::long_one) return next::lane;
  if (endpoint_.has_left() || !kept_.empty()) return next::go_on;
  return has_ended_ ? next::close : next::receive;
}

next http2_connection::take_sent(const sent& what, next then) {
  common_.metrics.here().count(metrics::grpc::sends);
  count_bytes(what);
  deadline_ = {};
  static_cast<void>(endpoint_.may_keep_unsent(0));
  return took(what, then, common_.metrics.here(), common_.memory);
}

void http2_connection::count_bytes(const sent& what) const {
  if (http_ != nullptr) common_.metrics.here().sent(what.bytes);
}

void http2_connection::set_deadline() noexcept {
  const clock::time_point wanted = endpoint_.deadline();
  const clock::time_point since = endpoint_.idle_since();
  if (wanted == deadline_ && since == idle_since_) return;
  deadline_ = wanted;
  idle_since_ = since;
  if (since == clock::time_point::max()) {
    socket_.deadline(wanted);
  } else {
    socket_.idle(since, wanted);
  }
}

}  // namespace

std::unique_ptr<connection> connect(socket& on, const common& of, const h1::common* http,
                                    std::string first) {
  return std::make_unique<http2_connection>(on, of, http, std::move(first));
}

}  // namespace bwos::server::h2
