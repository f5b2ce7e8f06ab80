// SPDX-License-Identifier: Apache-2.0
#include "http/h2/endpoint.hpp"

#include <algorithm>
#include <random>
#include <utility>

namespace bwos::server::h2 {
namespace {

/// When a connection that begins now is old.
clock_facts::time_point age_end(microseconds age_max, clock_facts::time_point now) {
  if (age_max.count() == 0) return clock_facts::time_point::max();
  thread_local std::minstd_rand random{std::random_device{}()};
  std::uniform_real_distribution<double> factor(1 - age_spread, 1 + age_spread);
  return now +
         std::chrono::duration_cast<std::chrono::steady_clock::duration>(age_max * factor(random));
}

}  // namespace

endpoint::endpoint(const common& of, stream_waker waker, clock::time_point now,
                   const h1::common* http, bool hands_on, int socket)
    : common_(of),
      waker_(waker),
      memory_(of.memory, socket, connection_bytes),
      session_(*this, of.bounds),
      calls_(of.calls != nullptr ? of.calls->make_calls(*this) : nullptr),
      now_(now),
      facts_{.began = now,
             .heard = now,
             .idle_since = now,
             .header_since = {},
             .probed_at = {},
             .leave_at = {},
             .age_end = age_end(of.bounds.age_max, now)},
      socket_(socket),
      hands_on_(hands_on) {
  if (http != nullptr) {
    requests_.emplace(*this, *http);
  } else {
    session_.police_pings();
    session_.skip_idle_resets();
    // The access log wants the path of each stream, also of one that ends within its header.
    if (of.log == nullptr) session_.recognise_headers();
  }
}

endpoint::~endpoint() {
  // When the threads have been joined: who ended, and was not taken any more, nobody discards.
  inbox_entry* ended = inbox_.sleeper() == nullptr ? inbox_.take() : nullptr;
  while (ended != nullptr) {
    inbox_entry& entry = *std::exchange(ended, ended->next_reply);
    static_cast<handed_on_stream&>(entry).kind->forget(entry);
  }
  // What they discard may come back to one_discarded(), which needs the rest of this.
  requests_.reset();
  calls_.reset();
}

template <class Do>
void endpoint::each_kind(Do what) {
  if (calls_) what(*calls_);
  if (requests_) what(static_cast<stream_kind&>(*requests_));
}

void endpoint::feed(std::span<const std::byte> bytes, clock::time_point now) {
  each_kind([](stream_kind& each) { each.begin_turn(); });
  feed_more(bytes, now);
}

void endpoint::feed_more(std::span<const std::byte> bytes, clock::time_point now) {
  each_kind([&](stream_kind& each) { each.begin_batch(now); });
  now_ = now;
  facts_.heard = now;
  facts_.probed = false;
  session_.feed(bytes, now);
  go(now);
  each_kind([](stream_kind& each) { each.let_go_of_input(); });
}

void endpoint::look(clock::time_point now) {
  each_kind([&](stream_kind& each) {
    each.begin_turn();
    each.begin_batch(now);
  });
  go(now);
}

std::size_t endpoint::body_bytes() const noexcept {
  return session_.held() + (requests_ ? requests_->body_bytes() : 0);
}

/// What the batch has left once all of it is pulled. That is there already: what it may add is
/// bounded by may_keep() and the like, and by its size. Streams that were refused for want of
/// memory may be among it, as their answers wait to be sent.
void endpoint::charge() noexcept {
  const std::size_t headers = session_.header_bytes_kept();
  const bool is_less = headers < std::exchange(headers_charged_, headers);
  const bool has_memory = memory_.set(memory::headers, headers);
  if (!has_memory) memory_.set_anyway(memory::headers, headers);
  has_memory_for_streams_ = has_memory && (has_memory_for_streams_ || is_less);
  memory_.set_anyway(memory::bodies, body_bytes());
  memory_.set_anyway(memory::output, session_.waiting_bytes() + unsent_bytes_);
}

/// All that a batch brings, before its one send.
void endpoint::go(clock::time_point now) {
  take_back();
  each_kind([&](stream_kind& each) { each.run(now); });
  if (std::exchange(owes_, has_left()) && !owes_) {
    each_kind([&](stream_kind& each) { each.renew(now); });
    session_.renew_header(now);
  }
  each_kind([&](stream_kind& each) { each.settle(now); });
  if (std::exchange(opened_before_, opened_) != opened_ || session_.streams() > 0) {
    facts_.idle_since = now;
    facts_.has_spare = true;
  }
  look_after(now);
}

bool endpoint::has_left() const noexcept {
  return (calls_ && calls_->left() != rest::nothing) || left() != rest::nothing;
}

stream* endpoint::open() {
  ++opened_;
  return requests_ ? &requests_->open() : &open_call();
}

stream& endpoint::open_call() {
  if (requests_) {  // the peer speaks gRPC
    session_.police_pings();
    session_.skip_idle_resets();
  }
  return calls_->open();
}

/// The handlers of streams that had waited for what was pulled write the next, which goes out with
/// the next pull.
bool endpoint::pull(byte_buffer& to) {
  if (calls_ && calls_->has_pulled()) calls_->run_pulled(now_);
  const bool more = session_.pull(to);
  charge();
  return more || (calls_ && (calls_->has_pulled() || calls_->end_lasting()));
}

bool endpoint::has_left_for_good() const noexcept {
  return facts_.stage == parting::left && leaves();
}

void endpoint::give_back(handed_on_stream& what) noexcept {
  // Before the push: behind it the runner may free the entry, and everything of the connection.
  const stream_waker waker = waker_;
  executor& workers = common_.workers;
  const auto [first, runner] = inbox_.push(what);
  continuation* const waits = first ? waker.interrupt() : runner;
  if (waits != nullptr) workers.post(*waits);
}

void endpoint::take_back() {
  taken_ = inbox_.take();
  while (taken_ != nullptr) {  // ends: a list
    inbox_entry& entry = *std::exchange(taken_, taken_->next_reply);
    static_cast<handed_on_stream&>(entry).kind->take(entry);  // may throw: lost() buries the rest
  }
}

/// The server does.
bool endpoint::leaves() const noexcept {
  // [endpoint.leaving] acquire: what watches were told of the drain, which end_lasting() asks for.
  // Who misses it comes here again with the interruption that follows. Partners: [http.leaves],
  // [native.leave].
  return common_.leaving.load(std::memory_order_acquire);
}

clock_facts endpoint::facts() const noexcept {
  clock_facts now = facts_;
  now.notice_arrived = session_.was_noticed();
  now.is_established = session_.is_established();
  now.in_header = session_.in_header();
  now.header_since = session_.header_since();
  now.has_streams = session_.streams() > 0;
  now.is_our_turn = has_left();
  return now;
}

/// What the connection is due.
void endpoint::look_after(clock::time_point now) {
  const bool parts = common_.parts_behind_answers && std::exchange(has_answered_, false) &&
                     common_.drain.is_draining();
  facts_.drains = parts || leaves();
  if (now >= sweep_at_) {
    constexpr int steps = 4;  // so much of a timeout is its error
    sweep_at_ = now + std::min(common_.bounds.body_timeout, common_.bounds.write_timeout) / steps;
    session_.watch_windows(now);
    each_kind([&](stream_kind& each) { each.sweep(now); });
  }
  for (due what = due::notice; what != due::nothing;) {  // ends: each is done once
    what = what_is_due(facts(), common_.bounds, now).what;
    do_what_is(what);
    did(what, facts_, common_.bounds, now);
  }
}

void endpoint::do_what_is(due what) {
  switch (what) {
    case due::nothing:
      return;
    case due::notice:
      return session_.notice();
    case due::leave:
      return session_.leave();
    case due::probe:
      return session_.probe();
    case due::give_back:
      each_kind([](stream_kind& each) { each.give_back_memory(); });
      return session_.give_back_memory();
    case due::end_idle:
      if (requests_) requests_->count_timeout(metrics::timeout::idle);
      return session_.end(error::none);
    case due::end_late_header:
      if (requests_) requests_->count_timeout(metrics::timeout::header);
      return session_.end(error::protocol);
    case due::end_unheard:
    case due::end_old:
      return session_.end(error::none);
  }
}

endpoint::clock::time_point endpoint::deadline() const noexcept {
  clock_facts quiet = facts();
  quiet.drains = quiet.notice_arrived = false;  // look_after() has seen to these
  clock::time_point first = what_is_due(quiet, common_.bounds, clock::time_point::min()).next;
  if (requests_) first = std::min(first, requests_->deadline());
  if (calls_) first = std::min(first, calls_->deadline());
  if (session_.streams() > 0) first = std::min(first, sweep_at_);
  return first;
}

endpoint::clock::time_point endpoint::idle_since() const noexcept {
  const bool is_idle = session_.streams() == 0 && !session_.in_header() && left() == rest::nothing;
  return is_idle ? facts_.idle_since : clock::time_point::max();
}

void endpoint::make_way() {
  if (idle_since() != clock::time_point::max()) session_.end(error::none);
}

void endpoint::lost() noexcept {
  each_kind([](stream_kind& each) { each.lost(); });
  bury(std::exchange(taken_, nullptr));
}

void endpoint::bury() noexcept {
  bury(inbox_.take());
}

void endpoint::bury(inbox_entry* ended) noexcept {
  while (ended != nullptr) {  // ends: a list
    inbox_entry& entry = *std::exchange(ended, ended->next_reply);
    static_cast<handed_on_stream&>(entry).kind->bury(entry);
  }
}

void endpoint::one_discarded() noexcept {
  --running_;
  continuation* const waits = running_ == 0 ? inbox_.sleeper() : nullptr;
  if (waits != nullptr) waits->invoke(*waits, continuation::disposition::discard);
}

}  // namespace bwos::server::h2
