// SPDX-License-Identifier: Apache-2.0
#include "grpc/peer.hpp"

#include <algorithm>
#include <limits>
#include <random>
#include <utility>

namespace bwos::server::native {

using calls = metrics::grpc;

namespace {

/// When a connection that begins now is old.
peer::clock::time_point age_end(std::chrono::microseconds age_max, peer::clock::time_point now) {
  if (age_max.count() == 0) return peer::clock::time_point::max();
  thread_local std::minstd_rand random{std::random_device{}()};
  std::uniform_real_distribution<double> factor(1 - h2::age_spread, 1 + h2::age_spread);
  return now + std::chrono::duration_cast<peer::clock::duration>(age_max * factor(random));
}

}  // namespace

peer::peer(const shared& of, stream_waker waker, clock::time_point now, const http1::context* http,
           bool hands_on)
    : shared_(of),
      waker_(waker),
      session_(*this, of.http2),
      turn_(of.calls.lane_threshold, of.metrics.ticks_per_ms()),
      budget_(of.http2.request_bytes_max),
      now_(now),
      began_(now),
      heard_(now),
      idle_since_(now),
      age_end_(age_end(of.http2.age_max, now)),
      hands_on_(hands_on) {
  if (http != nullptr) {
    requests_.emplace(*this, session_, *http);
  } else {
    session_.police_pings();
    session_.skip_idle_resets();
  }
}

peer::~peer() {
  // When the threads have been joined: who ended, and was not taken any more, nobody discards.
  inbox_entry* ended = inbox_.sleeper() == nullptr ? inbox_.take() : nullptr;
  while (ended != nullptr) {
    inbox_entry& entry = *std::exchange(ended, ended->next_reply);
    if (entry.is_request) {
      requests_->bury(entry);
      continue;
    }
    auto& each = static_cast<call&>(entry);
    each.running_ = each.exchange_ && !each.exchange_->collect(written_, true).ended;
  }
  while (call* const each = newest_) {
    newest_ = each->older_;
    if (each->running_) {
      each->peer_ = nullptr;  // its pool discards it yet, or has done so already
      coroutine_waiter* const waits = each->exchange_ ? each->exchange_->take_waiter() : nullptr;
      if (waits != nullptr) waits->finish(continuation::disposition::discard);
    } else {
      delete each;
    }
  }
}

void peer::feed(std::span<const std::byte> bytes, clock::time_point now) {
  turn_.begin(has_ready());
  feed_more(bytes, now);
}

void peer::feed_more(std::span<const std::byte> bytes, clock::time_point now) {
  ++batch_;
  now_ = now;
  heard_ = now;
  probed_ = false;
  session_.feed(bytes, now);
  go(now);
  own_messages();
}

/// Of calls whose message lies in what was fed, and that have not been run.
void peer::own_messages() {
  if (call* const borrower = std::exchange(borrower_, nullptr)) borrower->own_message();
  for (std::size_t i = ready_at_; i < ready_now_.size(); ++i) ready_now_[i]->own_message();
  for (call* const each : ready_) each->own_message();
}

void peer::look(clock::time_point now) {
  turn_.begin(has_ready());
  ++batch_;
  go(now);
}

/// All that a batch brings, before its one send.
void peer::go(clock::time_point now) {
  take_replies();
  run_ready(now);
  if (requests_) requests_->run(now);
  if (std::exchange(owes_, has_left()) && !owes_) renew(now);
  expire_calls(now);
  settle(now);
}

/// While calls or requests had to wait nothing was read: what the peer has sent meanwhile is not
/// late.
void peer::renew(clock::time_point now) noexcept {
  renewed_ = now;
  session_.renew_header(now);
}

h2::stream* peer::open() {
  ++opened_;
  return requests_ ? requests_->open() : &open_call();
}

h2::stream& peer::open_call() {
  if (requests_) {  // the peer speaks gRPC
    session_.police_pings();
    session_.skip_idle_resets();
  }
  call* const made = new call(*this);
  made->batch_ = batch_;
  made->older_ = newest_;
  if (newest_ != nullptr) newest_->newer_ = made;
  newest_ = made;
  return *made;
}

/// Its message is here, and the peer sends no more. Of a stream: its header is, or what its handler
/// has waited for.
void peer::complete(call& which) {
  if (which.ready_) return;
  ready_.push_back(&which);
  which.ready_ = true;
}

/// As long as the turn lasts, but one at least.
void peer::run_ready(clock::time_point now) {
  if (ready_at_ == ready_now_.size()) {
    ready_now_.clear();
    ready_at_ = 0;
    ready_now_.swap(ready_);
  }
  const call* const last = ready_now_.empty() ? nullptr : ready_now_.back();
  while (ready_at_ < ready_now_.size() && !turn_.is_over()) {
    call* const each = ready_now_[ready_at_++];
    each->ready_ = false;
    if (each->running_) {
      go_on(*each);
    } else if (each->open_ && !each->answered_) {
      run(*each, now, each == last);
    } else {
      release(*each);
    }
  }
  if (has_ready() && turn_.is_over()) count(calls::slices);
}

/// The handlers of streams that had waited for what was pulled write the next, which goes out with
/// the next pull.
bool peer::pull(byte_buffer& to) {
  if (has_ready() && !turn_.is_over()) run_ready(now_);
  return session_.pull(to) || (has_ready() && !turn_.is_over()) || end_lasting();
}

/// Of a server that leaves, behind all other streams, and once each has been told of the drain.
/// False: there are none, or it is too early.
bool peer::end_lasting() {
  if (leave_ != leave::left || !leaves()) return false;
  std::size_t lasting = 0;
  for (const call* each = newest_; each != nullptr; each = each->older_) {
    lasting += each->open_ && !each->answered_ && each->running_ && each->method_->is_lasting &&
               each->exchange_->is_settled();
  }
  if (lasting == 0 || lasting < session_.streams()) return false;
  for (call* each = newest_; each != nullptr;) {
    call& which = *std::exchange(each, each->older_);
    if (which.open_) which.fail(rpc::code::unavailable, "the server leaves");
  }
  return true;
}

/// Because calls wait too long (--queue-age-max).
bool peer::is_shed(const call& which, clock::time_point now) const noexcept {
  if (shared_.queue_age == nullptr || which.method_->options.vital) return false;
  return shared_.queue_age->exceeded(now) ||
         (turn_.is_long(which.method_->took) && shared_.queue_age->exceeded_in_lane());
}

void peer::run(call& which, clock::time_point now, bool is_last) {
  if (which.deadline_ <= now) {
    count(calls::started);
    count(calls::unserved);
    count(calls::cancelled);
    return which.fail(rpc::code::deadline_exceeded, "Deadline Exceeded");
  }
  if (is_shed(which, now)) {
    count(calls::started);
    count(calls::failed);
    count(calls::shed);
    return which.fail(rpc::code::unavailable, "calls wait too long for a worker");
  }
  if (!may_hand_on() || session_.waiting_bytes() > shared_.http2.output_bytes_max) {
    answered(which);
    return session_.reset(which, h2::error::refused_stream);
  }
  if (!which.exchange_) {
    took_message(which);  // what it becomes is charged from here on
    if (!which.prepare_message()) return;
  }
  if (which.method_->writes_stream && !which.exchange_) {
    which.exchange_ = std::make_unique<exchange>(which);
  }
  if (which.exchange_) which.additions_ = std::make_unique<additions>();
  which.run_ = which.method_->make(which, *which.method_);  // may throw
  count(calls::started);
  which.running_ = true;
  ++running_;
  if (!which.exchange_) {
    mean_time& took = which.method_->took;
    if (running_ < shared_.calls.handlers_max) {  // one may run here, whatever waits elsewhere
      which.place_ = turn_.place_of(took, is_last, shared_.workers);
    }
    const bool has_ended = which.place_ == place::here
                               ? turn_.run(took, [&] { return which.run_.start(); })
                               : which.run_.start();
    if (has_ended) ended(which);
    return;
  }
  const bool has_ended = which.exchange_->run_here([&] { return which.run_.start(); });
  if (has_ended) (void)which.exchange_->run_here([&] { return which.exchange_->end(); });
  look_at(which, false);
}

/// Of a stream: its handler waits no more.
void peer::go_on(call& which) {
  do {  // ends: it waits for what is not there, or has ended, or the turn is over
    coroutine_waiter* const waits = which.exchange_->take_ready();
    if (waits == nullptr) break;
    which.exchange_->resume(*waits);
  } while (!turn_.is_over());
  look_at(which, false);
}

/// What the handler of a stream has left since.
void peer::look_at(call& which, bool from_inbox) {
  const exchange::left left = which.exchange_->collect(written_, from_inbox);
  const bool wanted = which.open_ && !which.answered_;
  if (left.ended) count_end(which);
  if (left.paused) complete(which);
  if (wanted) {
    took(which, left.read);
    if (!written_.empty()) {
      which.begin_answer();
      if (which.noted_) which.noted_->bytes += written_.size();
      session_.append(which, written_);
    }
    if (left.ended) {
      which.finish_answer();
    } else if (left.read > 0 && !which.exchange_->has_unread()) {
      make_room(which);
    }
  } else if (left.ended) {
    release(which);
  }
  h2::empty(written_);
}

/// For a message that is larger than a window can be filled before, or stands in the way of others
/// that cannot finish either: the peer may send what is missing, within a budget. So no connection
/// waits for ever behind unfinished messages.
void peer::make_room(call& unfinished) {
  constexpr std::size_t stream_half = h2::stream_window / 2;
  constexpr std::size_t connection_half = h2::connection_window / 2;
  if (unfinished.message_size_ < stream_half && session_.held() < connection_half) return;
  if (unfinished.exchange_ && unfinished.exchange_->has_unread()) return;  // its handler's turn
  const std::size_t more = unfinished.held();
  if (!budget_.take(more)) {
    answered(unfinished);
    return session_.reset(unfinished, h2::error::refused_stream);
  }
  unfinished.ahead_ += more;
  session_.consume(unfinished, more);
}

/// Its bytes as they came are no longer kept, or will be no longer soon: the peer may send as many
/// again.
void peer::took_message(call& which) {
  budget_.give_back(std::exchange(which.ahead_, 0));
  session_.consume(which, which.held());
}

/// Of a stream: so much of what came first.
void peer::took(call& which, std::size_t bytes) {
  const std::size_t early = std::min(bytes, which.ahead_);
  budget_.give_back(early);
  which.ahead_ -= early;
  session_.consume(which, bytes - early);
}

/// Whether there may be another call of its method. Counts it, until it is freed.
bool peer::admits(call& which) {
  const std::size_t most = which.method_->options.calls_max;
  if (most == std::numeric_limits<std::size_t>::max()) return true;
  auto known = std::ranges::find(bounded_, which.method_, &decltype(bounded_)::value_type::first);
  if (known == bounded_.end()) known = bounded_.insert(known, {which.method_, 0});
  if (known->second == most) return false;
  ++known->second;
  return which.counted_ = true;
}

void peer::give_back(inbox_entry& what) noexcept {
  // Before the push: behind it the runner may free the entry, and everything of the connection.
  const stream_waker waker = waker_;
  executor& workers = shared_.workers;
  const auto [first, runner] = inbox_.push(what);
  continuation* const waits = first ? waker.interrupt() : runner;
  if (waits != nullptr) workers.post(*waits);
}

void peer::take_replies() {
  taken_ = inbox_.take();
  while (taken_ != nullptr) {  // ends: a list
    inbox_entry& entry = *std::exchange(taken_, taken_->next_reply);
    if (entry.is_request) {
      requests_->take(entry);
      continue;
    }
    auto& each = static_cast<call&>(entry);
    if (each.exchange_) {
      look_at(each, true);
    } else {
      ended(each);  // may throw: then lost() buries the rest
    }
  }
}

/// Its handler has.
void peer::ended(call& which) {
  count_end(which);
  if (!which.open_ || which.answered_) return release(which);
  which.answer();
}

void peer::count_end(call& which) noexcept {
  which.run_ = {};
  which.charge_.give_back(budget_);
  which.running_ = false;
  --running_;
  if (!which.open_ || which.answered_) return count(calls::cancelled);
  which.status_ = std::move(which.result_);
  count(which.status_.ok() ? calls::ok : calls::failed);
}

void peer::expire_calls(clock::time_point now) {
  while (!deadlines_.empty() && deadlines_.begin()->first <= now) {
    call& late = *deadlines_.begin()->second;
    late.fail(rpc::code::deadline_exceeded, "Deadline Exceeded");  // erases it
    late.cancel();
  }
}

/// Notes what the connection waits for from now on.
void peer::settle(clock::time_point now) {
  for (call* each = newest_; each != nullptr && each->batch_ == batch_; each = each->older_) {
    if (!each->header_done_ || each->answered_ || !each->open_) continue;
    if (each->deadline_ == clock::time_point::max()) continue;
    deadlines_.emplace(each->deadline_, each);
    each->timed_ = true;
  }
  if (std::exchange(opened_before_, opened_) != opened_ || session_.streams() > 0)
    idle_since_ = now;
  look_after(now);
}

/// The server does.
bool peer::leaves() const noexcept {
  // [peer.leaving] acquire: what watches were told of the drain, which end_lasting() asks for. Who
  // misses it comes here again with the interruption that follows. Partners: [http.leaves],
  // [native.leave].
  return shared_.leaving.load(std::memory_order_acquire);
}

/// What the connection is due.
void peer::look_after(clock::time_point now) {
  const bool parts = shared_.parts_behind_answers && std::exchange(has_answered_, false) &&
                     shared_.drain.is_draining();
  const bool drains = parts || leaves();
  if (leave_ == leave::no && (drains || now >= age_end_)) {
    session_.notice();
    leave_at_ = now + h2::goaway_patience;
    if (!drains && shared_.http2.age_grace.count() > 0) cut_at_ = now + shared_.http2.age_grace;
    leave_ = leave::noticed;
  }
  if (leave_ == leave::noticed && (session_.was_noticed() || now >= leave_at_)) {
    session_.leave();
    leave_ = leave::left;
  }
  if (now >= sweep_at_) sweep(now);
  if (now >= connection_deadline()) {
    const bool idle = session_.is_established() && !session_.in_header();
    session_.end(idle ? h2::error::none : h2::error::protocol);
    if (requests_)
      requests_->count_timeout(idle ? metrics::timeout::idle : metrics::timeout::header);
  }
  if (now >= keepalive_deadline()) {
    if (probed_) return session_.end(h2::error::none);  // nobody is there to read it
    session_.probe();
    probed_ = true;
    probed_at_ = now;
  }
  if (now >= cut_at_) session_.end(h2::error::none);
}

/// Looks for calls that take too long, now and then: nothing is noted where a call runs its course.
void peer::sweep(clock::time_point now) {
  constexpr int steps = 4;  // so much of a timeout is its error
  sweep_at_ = now + std::min(shared_.http2.body_timeout, shared_.http2.write_timeout) / steps;
  session_.watch_windows(now);
  for (call* each = newest_; each != nullptr;) {
    call& which = *std::exchange(each, each->older_);
    if (which.open_ && which.header_done_) sweep(which, now);
  }
  if (requests_) requests_->sweep();
}

void peer::sweep(call& which, clock::time_point now) {
  if (session_.is_stalled(which)) {
    shared_.metrics.here().timed_out(metrics::timeout::write);
    answered(which);
    return session_.reset(which, h2::error::cancel);  // its handler is cancelled with it
  }
  if (which.answered_ || has_left()) return;
  // Of a stream that is not read, the handler is what takes its time.
  const bool reads =
      which.running_ ? which.missing_ > 0 && !which.exchange_->has_unread() : !which.ready_;
  if (reads && now - std::max(which.begun_, renewed_) >= shared_.http2.body_timeout) {
    shared_.metrics.here().timed_out(metrics::timeout::body);
    which.fail(rpc::code::deadline_exceeded, "message not received in time");
  }
}

/// Of the handshake, a header, or nothing being asked for.
peer::clock::time_point peer::connection_deadline() const noexcept {
  if (!session_.is_established()) return began_ + shared_.http2.handshake_timeout;
  if (has_left()) return clock::time_point::max();  // it is our turn
  if (session_.in_header()) return session_.header_since() + shared_.http2.header_timeout;
  return session_.streams() == 0 ? idle_since_ + shared_.http2.idle_timeout
                                 : clock::time_point::max();
}

/// Of hearing something of the peer.
peer::clock::time_point peer::keepalive_deadline() const noexcept {
  if (probed_) return probed_at_ + shared_.http2.keepalive_timeout;
  return shared_.http2.keepalive.count() > 0 ? heard_ + shared_.http2.keepalive
                                             : clock::time_point::max();
}

peer::clock::time_point peer::deadline() const noexcept {
  clock::time_point first = std::min({connection_deadline(), keepalive_deadline(), cut_at_});
  if (leave_ == leave::no) first = std::min(first, age_end_);
  if (leave_ == leave::noticed) first = std::min(first, leave_at_);
  if (requests_) first = std::min(first, requests_->deadline());
  if (session_.streams() > 0) first = std::min(first, sweep_at_);
  if (!deadlines_.empty()) first = std::min(first, deadlines_.begin()->first);
  return first;
}

peer::clock::time_point peer::idle_since() const noexcept {
  const bool is_idle =
      session_.streams() == 0 && !session_.in_header() && left() == http2::requests::rest::nothing;
  return is_idle ? idle_since_ : clock::time_point::max();
}

void peer::make_way() {
  if (idle_since() != clock::time_point::max()) session_.end(h2::error::none);
}

void peer::lost() noexcept {
  ready_.clear();
  ready_now_.clear();
  ready_at_ = 0;
  deadlines_.clear();
  borrower_ = nullptr;
  for (call* each = newest_; each != nullptr;) {
    call& lost = *std::exchange(each, each->older_);
    lost.cancel();
    lost.note_end("gRPC", static_cast<unsigned>(rpc::code::cancelled));
    lost.open_ = lost.ready_ = lost.timed_ = false;
    release(lost);
  }
  if (requests_) requests_->lost();
  bury(std::exchange(taken_, nullptr));
}

void peer::bury() noexcept {
  bury(inbox_.take());
}

void peer::bury(inbox_entry* ended) noexcept {
  while (ended != nullptr) {  // ends: a list
    inbox_entry& entry = *std::exchange(ended, ended->next_reply);
    if (entry.is_request) {
      requests_->bury(entry);
      continue;
    }
    auto& each = static_cast<call&>(entry);
    if (each.exchange_ && !each.exchange_->collect(written_, true).ended) continue;
    each.run_ = {};
    each.running_ = false;
    --running_;
    count(calls::cancelled);
    release(each);
  }
}

/// It gets, or has got, its last frame: nothing else may answer it.
void peer::answered(call& which) noexcept {
  which.answered_ = true;
  note_answer();
  if (borrower_ == &which) borrower_ = nullptr;
  if (!which.running_) {  // else its message is the handler's
    which.forget_message();
    which.charge_.give_back(budget_);
    took_message(which);
  }
  if (std::exchange(which.timed_, false)) deadlines_.erase({which.deadline_, &which});
}

/// Frees it, unless somebody refers to it yet, who then comes here again.
void peer::release(call& which) noexcept {
  if (std::exchange(which.timed_, false)) deadlines_.erase({which.deadline_, &which});
  if (which.open_ || which.ready_ || which.running_) return;
  budget_.give_back(which.ahead_);
  which.charge_.give_back(budget_);
  if (which.counted_) {
    --std::ranges::find(bounded_, which.method_, &decltype(bounded_)::value_type::first)->second;
  }
  if (which.older_ != nullptr) which.older_->newer_ = which.newer_;
  (which.newer_ != nullptr ? which.newer_->older_ : newest_) = which.older_;
  delete &which;
}

/// When the threads have been joined: its handler will never go on.
void peer::discarded(call& which) noexcept {
  which.running_ = which.open_ = which.ready_ = false;
  release(which);
  one_discarded();
}

void peer::one_discarded() noexcept {
  --running_;
  continuation* const waits = running_ == 0 ? inbox_.sleeper() : nullptr;
  if (waits != nullptr) waits->invoke(*waits, continuation::disposition::discard);
}

}  // namespace bwos::server::native
