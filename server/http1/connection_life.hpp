// SPDX-License-Identifier: Apache-2.0
// The life of a connection, over whatever sockets: receive, parse, route, append the answer to the
// worker's output buffer, and after all the requests of one receive a single send. In the ordinary
// case nothing is kept between two receives but the parser.
//
// INVARIANTS
// C1  What belongs to the worker (its buffers, its counters, the bytes received) is used only
// inside functions that are
//     no coroutines: after a co_await the coroutine may be on another worker.
// C2  Before a co_await the worker's output buffer has been sent: what the kernel did not take is
// in unsent_, what is
//     not yet parsed in kept_. Both are empty while the connection waits for its peer.
// C3  Nothing is received while an answer is unsent: a peer that does not read cannot make the
// server buffer more.
#pragma once

#include <bwos/stream.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <new>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "http1/byte_buffer.hpp"
#include "http1/connection.hpp"
#include "http1/parser.hpp"
#include "http1/writer.hpp"

namespace bwos::server::http1::life {

using clock = std::chrono::steady_clock;

/// What a worker lends to the connection that it runs.
struct worker_local {
  byte_buffer output;
  std::string text;  ///< For handlers that make their body.
  date_cache date;

  /// steady_clock, at most a millisecond late: read anew only when that much has passed.
  clock::time_point coarse_now(metrics::ticks ticks, metrics::ticks ticks_per_ms) noexcept {
    // Unsigned: a counter that runs behind (another processor's) counts as having passed.
    if (ticks - read_at_ > ticks_per_ms) [[unlikely]] {
      read_at_ = ticks;
      now_ = clock::now();
    }
    return now_;
  }

 private:
  metrics::ticks read_at_ = 0;
  clock::time_point now_;
};

/// Not inlined, so that no compiler keeps the address of one thread's across a suspension (C1).
[[gnu::noinline]] worker_local& this_worker() noexcept;

/// Added to deadlines, which are counted from a clock that may be late by as much.
inline constexpr std::chrono::milliseconds clock_lag{1};

/// What a connection does once everything that it has written is sent.
enum class next : std::uint8_t { receive, go_on, lane, linger, close };

/// With what it has not parsed yet.
constexpr bool comes_back(next then) noexcept {
  return then == next::go_on || then == next::lane;
}

/// To a connection, or a request, more than there is room for.
constexpr response busy_response() noexcept {
  response busy = error_response(status::service_unavailable);
  busy.header = "Retry-After: 1";  // a guess; room comes as soon as anybody leaves
  return busy;
}

/// Appends an answer that is not a handler's, and behind which the connection ends.
void append_last(const response& what, const context& shared, worker_local& worker);

/// An answer that no request has been read for: a fresh socket takes it at once.
template <class Sockets>
void send_busy(typename Sockets::socket& peer, const context& shared) {
  worker_local& worker = this_worker();
  append_last(busy_response(), shared, worker);
  const sent taken = peer.try_send(worker.output.bytes());
  shared.metrics.here().sent(taken.bytes);
}

/// Our last answer is on its way. Closing with unread bytes would reset the connection and could
/// overtake it, so the peer's are read and dropped until it closes, within bounds.
template <class Sockets>
typename Sockets::template coroutine<void> linger(typename Sockets::socket& peer) {
  peer.shutdown_send();
  peer.deadline(clock::now() + linger_time);
  std::size_t dropped = 0;
  while (dropped < linger_bytes_max) {
    const received got = co_await peer.receive();
    if (got.error == std::errc::operation_canceled)
      continue;  // a drain: the deadline is near enough
    if (got.error || got.end()) break;
    dropped += got.bytes.size();
  }
}

/// `Sockets` is a socket with the members of bwos::stream, the kind of coroutine that can wait for
/// it, and ways to give up the thread: see connection.cpp.
template <class Sockets>
class connection {
 public:
  using socket = typename Sockets::socket;
  template <class T>
  using coroutine = typename Sockets::template coroutine<T>;

  connection(socket peer, const context& shared) noexcept
      : peer_(std::move(peer)), shared_(shared), parser_(shared.limits) {
    set_deadline(clock::now(), true);
  }

  [[nodiscard]] auto receive() { return peer_.receive(); }
  next take(const received& got);
  next take_kept();
  [[nodiscard]] bool has_unsent() const noexcept { return !unsent_.empty(); }
  coroutine<next> send_rest(next then);
  [[nodiscard]] auto linger() { return life::linger<Sockets>(peer_); }
  [[nodiscard]] auto yield() { return Sockets::yield(peer_, shared_.workers); }
  [[nodiscard]] auto lane() { return Sockets::lane(peer_, shared_.workers); }

 private:
  struct turn {
    metrics::ticks begun;
    next then = next::receive;
    std::size_t used = 0;   ///< Bytes of the input.
    unsigned answered = 0;  ///< Requests.
    bool late = false;      ///< Requests wait too long for a worker.
    bool shed = false;      ///< The one at hand is turned away for that.
  };

  next take_end();
  next take_error(std::error_code error);
  turn answer(std::string_view input, worker_local& worker);
  bool read_request(std::string_view input, turn& result, worker_local& worker);
  void answer_request(bool more, turn& result, worker_local& worker, clock::time_point now);
  next refuse(status code, next then);
  next flush(worker_local& worker, const turn& what);
  next be_fair(std::size_t received_bytes, next then) noexcept;
  next take_sent(const sent& what, next then);
  void set_deadline(clock::time_point now, bool progress) noexcept;
  [[nodiscard]] bool is_idle() const noexcept { return parser_.where() == parser::phase::idle; }

  socket peer_;
  const context& shared_;
  parser parser_;
  parser::phase waits_for_ = parser::phase::idle;  // what deadline_ was set for
  clock::time_point deadline_;
  std::string kept_;    // received, not yet parsed
  std::string unsent_;  // written, not yet taken by the kernel
  std::size_t bulk_bytes_ = 0;
  route route_ = route::other;     // of the request that was read last
  metrics::ticks lane_since_ = 0;  // when the request that is in the lane began; 0: none is
  bool leaving_ = false;           // a drain has set an idle connection's last deadline
};

// Plain functions: the only ones that touch what belongs to the worker.

template <class Sockets>
next connection<Sockets>::take(const received& got) {
  if (got.error) return take_error(got.error);
  if (got.end()) return take_end();
  worker_local& worker = this_worker();
  const std::string_view input(reinterpret_cast<const char*>(got.bytes.data()), got.bytes.size());
  shared_.metrics.here().received(input.size());
  const turn result = answer(input, worker);
  if (comes_back(result.then)) kept_.assign(input.substr(result.used));
  return be_fair(input.size(), flush(worker, result));
}

template <class Sockets>
next connection<Sockets>::take_kept() {
  worker_local& worker = this_worker();
  const turn result = answer(kept_, worker);
  if (comes_back(result.then)) {
    kept_.erase(0, result.used);
  } else {
    std::string().swap(kept_);
  }
  return flush(worker, result);
}

/// The peer will send no more. All whole requests have been answered.
template <class Sockets>
next connection<Sockets>::take_end() {
  return is_idle() ? next::close : refuse(status::bad_request, next::close);
}

template <class Sockets>
next connection<Sockets>::take_error(std::error_code error) {
  if (error == std::errc::operation_canceled) {
    if (shared_.handlers.is_draining() && is_idle() && !leaving_) {
      leaving_ = true;
      peer_.deadline(clock::now() + shared_.limits.drain_idle);
    }
    return next::receive;
  }
  if (error != std::errc::timed_out) return next::close;  // reset by the peer, or it is unreachable
  if (leaving_ && is_idle()) return next::close;
  metrics::slot& counters = shared_.metrics.here();
  switch (parser_.where()) {
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

template <class Sockets>
next connection<Sockets>::refuse(status code, next then) {
  worker_local& worker = this_worker();
  append_last(error_response(code), shared_, worker);
  return flush(worker, {.begun = metrics::now_ticks(), .then = then, .answered = 1});
}

/// Appends answers to the worker's output until the input, or this connection's turn, is over. The
/// first is that of the request which has come out of the lane, if one has.
template <class Sockets>
typename connection<Sockets>::turn connection<Sockets>::answer(std::string_view input,
                                                               worker_local& worker) {
  const metrics::ticks start = metrics::now_ticks();
  const metrics::ticks waited_since = std::exchange(lane_since_, 0);
  const clock::time_point now = worker.coarse_now(start, shared_.metrics.ticks_per_ms());
  turn result{.begun = waited_since != 0 ? waited_since : start};
  bool has_request = waited_since != 0;
  result.late = shared_.queue_age.exceeded(now);
  while (result.then == next::receive && (has_request || result.used < input.size())) {
    if (!has_request && !read_request(input, result, worker)) break;
    has_request = false;
    answer_request(result.used < input.size(), result, worker, now);
  }
  if (lane_since_ == 0 && parser_.wants_continue()) {
    worker.output.append(continue_response);
    parser_.continue_sent();
  }
  set_deadline(now, result.answered > 0);
  return result;
}

/// True: there is one to be answered here and now.
template <class Sockets>
bool connection<Sockets>::read_request(std::string_view input, turn& result, worker_local& worker) {
  const auto [what, consumed] = parser_.feed(input.substr(result.used));
  result.used += consumed;
  if (what == parser::outcome::incomplete) return false;
  if (what == parser::outcome::refused) {
    append_last(error_response(parser_.refusal()), shared_, worker);
    ++result.answered;
    result.then = next::linger;
    return false;
  }
  route_ = find_route(parser_.current().path);
  const bool is_long = shared_.times.is_long(route_);
  result.shed = !routes[static_cast<std::size_t>(route_)].vital &&
                (result.late || (is_long && shared_.queue_age.exceeded_in_lane()));
  if (!is_long || result.shed) return true;
  parser_.hold();
  lane_since_ = result.answered == 0 ? result.begun : metrics::now_ticks();
  result.then = next::lane;
  return false;
}

/// `more`: there is input behind it.
template <class Sockets>
void connection<Sockets>::answer_request(bool more, turn& result, worker_local& worker,
                                         clock::time_point now) {
  const request& asked = parser_.current();
  const bool brief = result.shed || routes[static_cast<std::size_t>(route_)].brief;
  const metrics::ticks begun = brief ? 0 : metrics::now_ticks();
  const response reply =
      result.shed ? busy_response() : respond(route_, asked, shared_.handlers, worker.text);
  if (!brief) shared_.times.note(route_, metrics::now_ticks() - begun);
  // While draining the last whole request of the input is the connection's last.
  const bool keep = parser_.keep_alive() && (more || !shared_.handlers.is_draining());
  write_response(
      worker.output, reply,
      {.keep_alive = keep, .http_1_0 = parser_.http_1_0(), .head_only = asked.verb == method::head},
      worker.date.line(now));
  // A peer that asked for the end, and sent no more, has nothing on its way that close() could
  // collide with.
  if (!keep) result.then = more || parser_.keep_alive() ? next::linger : next::close;
  parser_.release();

  shared_.metrics.here().request(route_, reply.code);
  if (result.shed) shared_.metrics.here().shed();
  ++result.answered;
  const bool look = !brief || result.answered % brief_answers_per_look == 0;
  const metrics::ticks slice =
      shared_.metrics.ticks_per_ms() * static_cast<metrics::ticks>(pipeline_slice.count());
  const bool over = result.answered == shared_.limits.pipeline_max ||
                    worker.output.size() > output_bytes_max ||
                    (look && (metrics::now_ticks() - result.begun) * 1000 > slice);
  if (keep && more && over) result.then = next::go_on;
}

/// Sends what the worker's output holds, as far as that goes without waiting.
template <class Sockets>
next connection<Sockets>::flush(worker_local& worker, const turn& what) {
  if (worker.output.empty()) return what.then;
  const sent taken = peer_.try_send(worker.output.bytes());
  metrics::slot& counters = shared_.metrics.here();
  counters.sent(taken.bytes);
  counters.answered(what.answered, metrics::now_ticks() - what.begun);
  if (taken.error) return next::close;
  if (taken.bytes < worker.output.size()) unsent_.assign(worker.output.view().substr(taken.bytes));
  return what.then;
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
next connection<Sockets>::take_sent(const sent& what, next then) {
  unsent_.clear();
  unsent_.shrink_to_fit();
  metrics::slot& counters = shared_.metrics.here();
  counters.sent(what.bytes);
  if (what.error == std::errc::timed_out) {
    counters.timed_out(metrics::timeout::write);
    peer_.reset_on_close();  // it would take no more of what is left in the socket either
  }
  if (what.error) return next::close;
  // Time spent sending is not the peer's idleness, but a request that has begun goes on being
  // waited for.
  set_deadline(clock::now(), is_idle());
  peer_.deadline(deadline_);
  return then;
}

/// `progress`: a request was answered, so that what is waited for now is another one.
template <class Sockets>
void connection<Sockets>::set_deadline(clock::time_point now, bool progress) noexcept {
  if (!progress && parser_.where() == waits_for_) return;
  waits_for_ = parser_.where();
  microseconds timeout = shared_.limits.idle_timeout;
  if (waits_for_ == parser::phase::header) timeout = shared_.limits.header_timeout;
  if (waits_for_ == parser::phase::body) timeout = shared_.limits.body_timeout;
  deadline_ = now + timeout + clock_lag;
  peer_.deadline(deadline_);
}

// Coroutines.

/// A coroutine of its own, as linger() is: connections that need neither do not carry their frames.
template <class Sockets>
typename Sockets::template coroutine<next> connection<Sockets>::send_rest(next then) {
  peer_.deadline(clock::now() + shared_.limits.write_timeout);
  const sent what = co_await peer_.send(std::as_bytes(std::span(unsent_)));
  co_return take_sent(what, then);
}

template <class Sockets>
typename Sockets::template coroutine<void> serve(typename Sockets::socket peer,
                                                 const context& shared) {
  connection<Sockets> served(std::move(peer), shared);
  try {
    auto then = next::receive;
    while (then !=
           next::close) {  // ends: every wait has a deadline, and a drain ends what makes progress
      if (then == next::receive) {
        const received got = co_await served.receive();
        then = served.take(got);
      } else if (then == next::go_on) {
        co_await served.yield();
        then = served.take_kept();
      } else if (then == next::lane) {
        co_await served.lane();
        then = served.take_kept();
      } else {
        co_await served.linger();
        then = next::close;
      }
      if (served.has_unsent()) then = co_await served.send_rest(then);
    }
  } catch (const std::bad_alloc&) {
    // For this connection's bytes: it is closed, as it goes out of scope, and the others live.
    shared.metrics.here().out_of_memory();
  }
}

template <class Sockets>
typename Sockets::template coroutine<void> refuse(typename Sockets::socket peer,
                                                  const context& shared) {
  try {
    send_busy<Sockets>(peer, shared);
    co_await linger<Sockets>(peer);
  } catch (const std::bad_alloc&) {
    shared.metrics.here().out_of_memory();
  }
}

}  // namespace bwos::server::http1::life
