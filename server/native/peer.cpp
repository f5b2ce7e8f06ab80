// SPDX-License-Identifier: Apache-2.0
#include "native/peer.hpp"

#include <algorithm>
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

peer::peer(const shared& of, stream_waker waker, clock::time_point now, const http1::context* http)
    : shared_(of),
      waker_(waker),
      session_(*this, of.http2),
      now_(now),
      began_(now),
      heard_(now),
      idle_since_(now),
      age_end_(age_end(of.http2.age_max, now)) {
  if (http != nullptr) {
    requests_.emplace(*this, session_, *http);
  } else {
    session_.police_pings();
  }
}

peer::~peer() {
  // When the threads have been joined: who ended, and was not taken any more, nobody discards.
  inbox_entry* ended = inbox_.sleeper() == nullptr ? inbox_.take() : nullptr;
  for (; ended != nullptr; ended = ended->next_reply) static_cast<call*>(ended)->running_ = false;
  while (call* const each = newest_) {
    newest_ = each->older_;
    if (each->running_) {
      each->peer_ = nullptr;  // its pool discards it yet, or has done so already
    } else {
      delete each;
    }
  }
}

void peer::feed(std::span<const std::byte> bytes, clock::time_point now) {
  ++batch_;
  now_ = now;
  heard_ = now;
  probed_ = false;
  session_.feed(bytes, now);
  go(now);
  if (call* const borrower = std::exchange(borrower_, nullptr)) borrower->own_message();
}

void peer::look(clock::time_point now) {
  ++batch_;
  go(now);
}

/// All that a batch brings, before its one send.
void peer::go(clock::time_point now) {
  take_replies();
  run_ready(now);
  if (requests_) requests_->run(now);
  expire_calls(now);
  settle(now);
}

h2::stream* peer::open() {
  ++opened_;
  return requests_ ? requests_->open() : &open_call();
}

h2::stream& peer::open_call() {
  if (requests_) session_.police_pings();  // the peer speaks gRPC
  call* const made = new call(*this, shared_.handlers);
  made->batch_ = batch_;
  made->older_ = newest_;
  if (newest_ != nullptr) newest_->newer_ = made;
  newest_ = made;
  return *made;
}

/// Its message is here, and the peer sends no more.
void peer::complete(call& which) {
  ready_.push_back(&which);
  which.ready_ = true;
}

void peer::run_ready(clock::time_point now) {
  for (call* const each : ready_) {
    each->ready_ = false;
    if (each->open_ && !each->answered_) {
      run(*each, now);
    } else {
      release(*each);
    }
  }
  ready_.clear();
}

void peer::run(call& which, clock::time_point now) {
  if (which.deadline_ <= now) {
    count(calls::started);
    count(calls::unserved);
    count(calls::cancelled);
    return which.fail(rpc::code::deadline_exceeded, "Deadline Exceeded");
  }
  if (running_ >= shared_.calls.handlers_max ||
      session_.waiting_bytes() > shared_.http2.output_bytes_max) {
    answered(which);
    return session_.reset(which, h2::error::refused_stream);
  }
  if (!which.expand(shared_.calls.message_bytes_max)) return;
  which.run_ = which.method_->make(which, *which.method_);  // may throw
  count(calls::started);
  which.running_ = true;
  ++running_;
  if (which.run_.start()) ended(which);
}

void peer::take_replies() {
  taken_ = inbox_.take();
  while (taken_ != nullptr) {  // ends: a list
    auto& each = static_cast<call&>(*taken_);
    taken_ = taken_->next_reply;
    ended(each);  // may throw: then lost() buries the rest
  }
}

/// Its handler has.
void peer::ended(call& which) {
  which.run_ = {};
  which.running_ = false;
  --running_;
  if (!which.open_ || which.answered_) {
    count(calls::cancelled);
    return release(which);
  }
  which.status_ = std::move(which.result_);
  count(which.status_.ok() ? calls::ok : calls::failed);
  which.answer();
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

/// What the connection is due.
void peer::look_after(clock::time_point now) {
  // [peer.leaving] relaxed: the interruption that comes after it brings it here, or a later one.
  // Partner: [native.leave].
  const bool drains = shared_.leaving.load(std::memory_order_relaxed);
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

/// Of the handshake, a header, or nothing being asked for.
peer::clock::time_point peer::connection_deadline() const noexcept {
  if (!session_.is_established()) return began_ + shared_.http2.handshake_timeout;
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
  if (!deadlines_.empty()) first = std::min(first, deadlines_.begin()->first);
  return first;
}

void peer::lost() noexcept {
  ready_.clear();
  deadlines_.clear();
  borrower_ = nullptr;
  for (call* each = newest_; each != nullptr;) {
    call& lost = *std::exchange(each, each->older_);
    lost.cancel();
    lost.open_ = lost.ready_ = lost.timed_ = false;
    release(lost);
  }
  bury(std::exchange(taken_, nullptr));
}

void peer::bury() noexcept {
  bury(inbox_.take());
}

void peer::bury(inbox_entry* ended) noexcept {
  while (ended != nullptr) {  // ends: a list
    auto& each = static_cast<call&>(*ended);
    ended = ended->next_reply;
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
  if (borrower_ == &which) borrower_ = nullptr;
  if (std::exchange(which.timed_, false)) deadlines_.erase({which.deadline_, &which});
}

/// Frees it, unless somebody refers to it yet, who then comes here again.
void peer::release(call& which) noexcept {
  if (std::exchange(which.timed_, false)) deadlines_.erase({which.deadline_, &which});
  if (which.open_ || which.ready_ || which.running_) return;
  if (which.older_ != nullptr) which.older_->newer_ = which.newer_;
  (which.newer_ != nullptr ? which.newer_->older_ : newest_) = which.older_;
  delete &which;
}

/// When the threads have been joined: its handler will never go on.
void peer::discarded(call& which) noexcept {
  which.running_ = which.open_ = which.ready_ = false;
  --running_;
  release(which);
  continuation* const waits = running_ == 0 ? inbox_.sleeper() : nullptr;
  if (waits != nullptr) waits->invoke(*waits, continuation::disposition::discard);
}

}  // namespace bwos::server::native
