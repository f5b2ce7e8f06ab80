// SPDX-License-Identifier: Apache-2.0
// An HTTP/1.1 connection: parse what was received, route, append the answer to the worker's output
// buffer, and after all the requests of one receive a single send. In the ordinary case nothing is
// kept between two receives: the parser is the worker's, and only an unfinished request keeps it. A
// large body is not copied: it is the last of its send, from where it lies, and what the kernel
// does not take stays there. What all connections have in common, and the invariants C1 to C3, are
// net/connection.hpp's; here kept_ is what is not parsed yet.
#include "http/h1/connection.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "http/h1/parser.hpp"
#include "http/h1/writer.hpp"
#include "http/h2/connection.hpp"
#include "http/worker_local.hpp"

namespace bwos::server::h1 {
namespace {

using clock = std::chrono::steady_clock;

/// Added to deadlines, which are counted from a clock that may be late by as much.
constexpr std::chrono::milliseconds clock_lag{1};

std::string_view text_in(const received& got) noexcept {
  return {reinterpret_cast<const char*>(got.bytes.data()), got.bytes.size()};
}

/// What a connection takes while it is idle: this class, its frames, its socket's entry. Each of
/// 8,000 made .94 KB resident.
constexpr std::size_t connection_bytes = 2 * 1024;

/// With which a peer says that it speaks HTTP/2 without asking (RFC 9113, 3.4).
constexpr std::string_view http2_preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// With what it has not parsed yet.
constexpr bool comes_back(next then) noexcept {
  return then == next::go_on || then == next::lane;
}

/// Appends an answer that is not a handler's, and behind which the connection ends.
void append_last(const response& what, const common& of, worker_local& worker) {
  const clock::time_point now = worker.coarse_now(metrics::now_ticks(), of.metrics.ticks_per_ms());
  write_response(worker.output, what, {.keep_alive = false}, worker.date.line(now));
  of.metrics.here().request(of.routes.other(), number_of(what.code));
}

/// To the access log: of `asked`, or of nothing that could be read.
[[gnu::cold]] void note(const common& of, const socket& peer, const request* asked, bool http_1_0,
                        const response& reply, metrics::ticks begun) {
  const bool head = asked != nullptr && asked->verb == method::head;
  of.log->note({.socket = peer.native_handle(),
                .protocol = http_1_0 ? "HTTP/1.0" : "HTTP/1.1",
                .method = asked == nullptr ? std::string_view() : name_of(asked->verb),
                .path = asked == nullptr ? std::string_view() : asked->path,
                .status = text_of(reply.code).code,
                .bytes = head ? 0 : reply.body.size(),
                .duration = of.metrics.time_since(begun)});
}

class http1_connection final : public connection {
 public:
  http1_connection(socket& on, const common& of) noexcept
      : connection(on),
        common_(of),
        memory_(of.http2.memory, on.native_handle(), connection_bytes) {
    set_deadline(clock::now(), true);
  }

  [[nodiscard]] receive_room room() override;
  [[nodiscard]] next take(const received& got) override;
  [[nodiscard]] next go_on() override;
  void set_write_deadline() noexcept override {
    socket_.deadline(clock::now() + common_.limits.write_timeout);
  }
  [[nodiscard]] next take_sent(const sent& what, next then) override;
  [[nodiscard]] ticks lane_since() const noexcept override { return received_at_; }
  /// HTTP/2, from the first byte on.
  [[nodiscard]] std::unique_ptr<connection> other() override {
    return h2::connect(socket_, common_.http2, &common_, std::move(kept_));
  }

 private:
  struct turn {
    metrics::ticks begun;  ///< Of its first request.
    metrics::ticks started;
    next then = next::receive;
    std::size_t used = 0;   ///< Bytes of the input.
    unsigned answered = 0;  ///< Requests.
    bool from_lane = false;
    bool late = false;        ///< Requests wait too long for a worker.
    bool shed = false;        ///< The one at hand is turned away for that.
    std::string_view body{};  ///< Of the last answer, where it is large: goes behind the output.
    byte_buffer body_in{};    ///< Where it lies, if that is not the worker's.
  };

  next take_first(const received& got);
  next take_bytes(std::string_view input);
  next take_end();
  next take_error(std::error_code error);
  turn answer(std::string_view input, worker_local& worker);
  bool read_request(std::string_view input, turn& result, worker_local& worker);
  void answer_request(bool more, turn& result, worker_local& worker, clock::time_point now);
  [[nodiscard]] bool is_over(microseconds slice, const turn& what) const noexcept;
  next refuse(status code, next then);
  next flush(worker_local& worker, turn& what);
  [[nodiscard]] bool keep_unsent_of(const worker_local& worker, turn& what, std::size_t taken);
  void set_deadline(clock::time_point now, bool progress) noexcept;
  void borrow_parser(worker_local& worker);
  void give_parser_back(worker_local& worker, next then) noexcept;
  /// Of a request that comes.
  [[nodiscard]] parser::phase where() const noexcept {
    return parser_ ? parser_->where() : parser::phase::idle;
  }
  [[nodiscard]] bool is_idle() const noexcept { return where() == parser::phase::idle; }

  const common& common_;
  memory_account memory_;
  std::unique_ptr<parser> parser_;  // in a turn, and while a request is not whole or not answered
  parser::phase waits_for_ = parser::phase::idle;  // what deadline_ was set for
  clock::time_point deadline_;
  std::string kept_;                // received, not yet parsed
  std::size_t route_ = 0;           // of the request that was read last
  metrics::ticks lane_since_ = 0;   // when the request that is in the lane began; 0: none is
  metrics::ticks received_at_ = 0;  // kept_, where it came with what is answered already
  bool is_http1_ = false;           // the first bytes have come, and are no preface of HTTP/2
  bool expects_large_ = false;      // the last request's body was large
  bool leaving_ = false;            // a drain has set an idle connection's last deadline
};

// Plain functions: the only ones that touch what belongs to the worker.

/// Behind a body that one receive cannot bring, another such request is expected: little more than
/// its head is received at first, so that little of its body is copied out of the worker's buffer.
receive_room http1_connection::room() {
  if (parser_) return {.into = parser_->room()};
  if (expects_large_) return {.at_most = head_bytes_expected};
  return {};
}

next http1_connection::take(const received& got) {
  if (!is_http1_) [[unlikely]] {
    const std::string_view preface = http2_preface.substr(0, got.bytes.size());
    if (!kept_.empty() || got.bytes.empty() || text_in(got).starts_with(preface)) {
      return take_first(got);
    }
    is_http1_ = true;
  }
  if (got.error) return take_error(got.error);
  if (got.end()) return take_end();
  return take_bytes(text_in(got));
}

/// Until it is known which protocol this is. A peer whose first bytes may become the preface of
/// HTTP/2 has a header's time for the rest of it.
next http1_connection::take_first(const received& got) {
  const bool fresh = kept_.empty();
  if (fresh && got.bytes.empty()) return got.error ? take_error(got.error) : take_end();
  if (got.error == std::errc::operation_canceled || got.error == std::errc::connection_aborted) {
    return next::receive;  // a drain, or somebody waits for room: the deadline is near enough
  }
  kept_.append(text_in(got));
  const std::string_view begun = std::string_view(kept_).substr(0, http2_preface.size());
  if (begun == http2_preface) return next::other;
  if (http2_preface.starts_with(begun) && !got.bytes.empty()) {
    if (fresh) socket_.deadline(clock::now() + common_.limits.header_timeout);
    return next::receive;
  }
  is_http1_ = true;
  const std::string first = std::exchange(kept_, {});
  const next then = take_bytes(first);
  return got.bytes.empty() && then == next::receive ? take(got) : then;
}

next http1_connection::take_bytes(std::string_view input) {
  worker_local& worker = this_worker();
  common_.metrics.here().received(input.size());
  // Where it was offered (io_uring may have it elsewhere).
  const std::size_t room = parser_ && parser_->is_in_room(input) ? parser_->room().size() : 0;
  const std::size_t counted = room > 0 ? input.size() / direct_bytes_per_byte : input.size();
  const bool has_paused = input.size() < input_bytes_bulk && input.size() != room;
  turn result = answer(input, worker);
  if (comes_back(result.then)) {
    kept_.assign(input.substr(result.used));
    memory_.set_anyway(memory::headers, kept_.size());  // no more than a receive brings
    received_at_ = result.started;
  }
  return be_fair(counted, has_paused, flush(worker, result));
}

next http1_connection::go_on() {
  worker_local& worker = this_worker();
  turn result = answer(kept_, worker);
  const next then = flush(worker, result);  // a body may lie in kept_
  if (comes_back(result.then)) {
    kept_.erase(0, result.used);
  } else {
    std::string().swap(kept_);
    memory_.set_anyway(memory::headers, 0);
  }
  return then;
}

/// The peer will send no more. All whole requests have been answered.
next http1_connection::take_end() {
  return is_idle() ? next::close : refuse(status::bad_request, next::close);
}

next http1_connection::take_error(std::error_code error) {
  if (error == std::errc::operation_canceled) {
    if (common_.drain.is_draining() && is_idle() && !leaving_) {
      leaving_ = true;
      socket_.deadline(clock::now() + common_.limits.drain_idle);
    }
    return next::receive;
  }
  if (error == std::errc::connection_aborted && !is_idle()) return next::receive;
  if (error != std::errc::timed_out) return next::close;  // reset by the peer, or it is unreachable
  if (leaving_ && is_idle()) return next::close;
  metrics::slot& counters = common_.metrics.here();
  switch (where()) {
    case parser::phase::idle:
      counters.timed_out(metrics::timeout::idle);
      return next::close;
    case parser::phase::header:
      counters.timed_out(metrics::timeout::header);
      break;
    case parser::phase::body:
      counters.timed_out(metrics::timeout::body);
      break;
  }
  return refuse(status::request_timeout, next::linger);
}

next http1_connection::refuse(status code, next then) {
  worker_local& worker = this_worker();
  const metrics::ticks begun = metrics::now_ticks();
  append_last(error_response(code), common_, worker);
  if (common_.log != nullptr) note(common_, socket_, nullptr, false, error_response(code), begun);
  turn result{.begun = begun, .started = begun, .then = then, .answered = 1};
  return flush(worker, result);
}

/// Appends answers to the worker's output until the input, or this connection's turn, is over. The
/// first is that of the request which has come out of the lane, if one has.
http1_connection::turn http1_connection::answer(std::string_view input, worker_local& worker) {
  const metrics::ticks start = metrics::now_ticks();
  const metrics::ticks waited_since = std::exchange(lane_since_, 0);
  const clock::time_point now = worker.coarse_now(start, common_.metrics.ticks_per_ms());
  bool has_request = waited_since != 0;
  turn result{
      .begun = has_request ? waited_since : start, .started = start, .from_lane = has_request};
  result.late = common_.queue_age.exceeded(now);
  if (!parser_) borrow_parser(worker);
  while (result.then == next::receive && (has_request || result.used < input.size())) {
    if (!has_request && !read_request(input, result, worker)) break;
    has_request = false;
    answer_request(result.used < input.size(), result, worker, now);
  }
  if (lane_since_ == 0 && parser_->wants_continue()) {
    worker.output.append(continue_response);
    parser_->continue_sent();
  }
  give_parser_back(worker, result.then);
  set_deadline(now, result.answered > 0);
  return result;
}

/// Most connections wait for a request of which nothing has come: they need no parser, and the
/// worker's is in its cache.
void http1_connection::borrow_parser(worker_local& worker) {
  if (!worker.parser) {
    parser_ = std::make_unique<parser>(common_.limits, memory_);
    return;
  }
  parser_ = std::move(worker.parser);
  parser_->serve(common_.limits, memory_);
}

/// Unless the connection needs it yet. Behind its last request the parser goes with it.
void http1_connection::give_parser_back(worker_local& worker, next then) noexcept {
  if (parser_->is_unused() && (then == next::receive || then == next::go_on)) {
    worker.parser = std::move(parser_);
  }
}

/// True: there is one to be answered here and now.
bool http1_connection::read_request(std::string_view input, turn& result, worker_local& worker) {
  const auto [what, consumed] = parser_->feed(input.substr(result.used));
  result.used += consumed;
  if (what == parser::outcome::incomplete) return false;
  if (what == parser::outcome::refused) {
    const response refusal = error_response(parser_->refusal());
    append_last(refusal, common_, worker);
    if (common_.log != nullptr) note(common_, socket_, nullptr, false, refusal, result.begun);
    ++result.answered;
    result.then = next::linger;
    return false;
  }
  route_ = common_.routes.find(parser_->current().path);
  const bool is_long = common_.times.is_long(route_);
  result.shed = !common_.routes[route_].vital &&
                (result.late || (is_long && common_.queue_age.exceeded_in_lane()));
  if (!is_long || result.shed) return true;
  if (result.from_lane && !is_over(lane_slice, result)) return true;
  parser_->hold();
  lane_since_ = result.answered == 0 ? result.begun : metrics::now_ticks();
  result.then = next::lane;
  return false;
}

/// `more`: there is input behind it.
void http1_connection::answer_request(bool more, turn& result, worker_local& worker,
                                      clock::time_point now) {
  const request& asked = parser_->current();
  const bool brief = result.shed || common_.routes[route_].brief;
  const metrics::ticks begun = brief ? 0 : metrics::now_ticks();
  const response reply =
      result.shed ? busy_response() : common_.routes.respond(route_, asked, worker.text);
  if (!brief) common_.times.note(route_, metrics::now_ticks() - begun);
  // While draining the last whole request of the input is the connection's last.
  const bool keep = parser_->keep_alive() && (more || !common_.drain.is_draining());
  const bool is_head = asked.verb == method::head;
  expects_large_ = asked.body.size() >= body_bytes_divided;
  const bool is_large = !is_head && reply.body.size() >= body_bytes_apart;
  write_response(
      worker.output, reply,
      {.keep_alive = keep, .http_1_0 = parser_->http_1_0(), .head_only = is_head || is_large},
      worker.date.line(now));
  // A peer that asked for the end, and sent no more, has nothing on its way that close() could
  // collide with.
  if (!keep) result.then = more || parser_->keep_alive() ? next::linger : next::close;
  if (common_.log != nullptr) [[unlikely]]
    note(common_, socket_, &asked, parser_->http_1_0(), reply, result.begun);
  if (is_large) {
    result.body = reply.body;
    result.body_in = parser_->take_gathered();
  }
  parser_->release();

  common_.metrics.here().request(route_, number_of(reply.code));
  if (result.shed) common_.metrics.here().shed();
  ++result.answered;
  const bool look = !brief || result.answered % brief_answers_per_look == 0;
  // Out of the lane, read_request() decides about the next one if it is long.
  const bool lasted = look && is_over(result.from_lane ? lane_slice : pipeline_slice, result) &&
                      !(result.from_lane && common_.times.is_long(route_));
  const bool over = result.answered == common_.limits.pipeline_max ||
                    worker.output.size() > output_bytes_max || is_large || lasted;
  if (keep && more && over) result.then = next::go_on;
}

/// Whether the turn has lasted for longer.
bool http1_connection::is_over(microseconds slice, const turn& what) const noexcept {
  return (metrics::now_ticks() - what.started) * 1000 >
         common_.metrics.ticks_per_ms() * static_cast<metrics::ticks>(slice.count());
}

/// Sends what the worker's output holds, as far as that goes without waiting.
next http1_connection::flush(worker_local& worker, turn& what) {
  if (worker.output.empty()) return what.then;
  const sent taken = socket_.try_send(worker.output.bytes(), std::as_bytes(std::span(what.body)));
  metrics::slot& counters = common_.metrics.here();
  counters.sent(taken.bytes);
  counters.answered(what.answered, metrics::now_ticks() - what.begun);
  if (taken.error) return next::close;
  if (taken.bytes < worker.output.size() + what.body.size() &&
      !keep_unsent_of(worker, what, taken.bytes)) {
    socket_.reset_on_close();
    return next::close;
  }
  put_away(std::move(what.body_in), memory_.budget());
  settle(worker.output, memory_.budget(), thread_buffer::http1_output);
  return what.then;
}

/// What the kernel did not take. A large rest of a body stays in the request's buffer. False: there
/// is no memory for it.
bool http1_connection::keep_unsent_of(const worker_local& worker, turn& what, std::size_t taken) {
  const std::size_t of_output = std::min(taken, worker.output.size());
  const std::string_view output = worker.output.view().substr(of_output);
  const std::string_view body = what.body.substr(taken - of_output);
  const bool stays = output.empty() && body.size() >= body_bytes_apart && what.body_in.has(body);
  const std::size_t bytes =
      stays ? what.body_in.capacity() : buffer_bytes(output.size() + body.size());
  if (!memory_.set(memory::output, bytes)) return false;
  if (stays) {
    keep_unsent(body, std::move(what.body_in));
  } else {
    keep_unsent(output, body, memory_.budget());
  }
  return true;
}

next http1_connection::take_sent(const sent& what, next then) {
  metrics::slot& counters = common_.metrics.here();
  counters.sent(what.bytes);
  memory_.set_anyway(memory::output, 0);
  then = took(what, then, counters, memory_.budget());
  if (what.error) return then;
  // Time spent sending is not the peer's idleness, but a request that has begun goes on being
  // waited for.
  set_deadline(clock::now(), is_idle());
  if (!is_idle()) socket_.deadline(deadline_);
  return then;
}

/// `progress`: a request was answered, so that what is waited for now is another one.
void http1_connection::set_deadline(clock::time_point now, bool progress) noexcept {
  if (!progress && where() == waits_for_) return;
  waits_for_ = where();
  microseconds timeout = common_.limits.idle_timeout;
  if (waits_for_ == parser::phase::header) timeout = common_.limits.header_timeout;
  if (waits_for_ == parser::phase::body) timeout = common_.limits.body_timeout;
  deadline_ = now + timeout + clock_lag;
  if (is_idle()) {
    socket_.idle(now, deadline_);
  } else {
    socket_.deadline(deadline_);
  }
}

}  // namespace

std::unique_ptr<connection> factory::connect(socket& accepted) const {
  return std::make_unique<http1_connection>(accepted, common_);
}

/// No request has been read: a fresh socket takes the answer at once.
void factory::refuse(socket& accepted) const {
  worker_local& worker = this_worker();
  append_last(busy_response(), common_, worker);
  if (common_.log != nullptr) {
    note(common_, accepted, nullptr, false, busy_response(), metrics::now_ticks());
  }
  const sent taken = accepted.try_send(worker.output.bytes(), {});
  common_.metrics.here().sent(taken.bytes);
}

}  // namespace bwos::server::h1
