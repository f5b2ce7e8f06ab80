// SPDX-License-Identifier: Apache-2.0
#include "grpc/calls.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include "grpc/fields.hpp"

namespace bwos::server::rpc {

using counted = metrics::grpc;

bool served_methods::is_call(std::string_view content_type) const noexcept {
  return is_grpc_content_type(content_type);
}

std::unique_ptr<h2::stream_kind> served_methods::make_calls(h2::endpoint& of) const {
  return std::make_unique<calls>(*this, of);
}

calls::calls(const served_methods& served, h2::endpoint& of)
    : served_(served),
      at_(of),
      session_(of.session()),
      common_(of.of()),
      turn_(served.limits.lane_threshold, common_.metrics.ticks_per_ms()),
      budget_(common_.bounds.request_bytes_max, of.memory()) {}

/// When the threads have been joined, their pool discards what runs yet, or has done so already.
calls::~calls() {
  while (call* const each = newest_) {
    newest_ = each->older;
    each->outlive_calls();
  }
}

/// Of calls whose message lies in what was fed, and that have not been run.
void calls::let_go_of_input() {
  if (call* const borrower = std::exchange(borrower_, nullptr)) borrower->own_message();
  for (std::size_t i = ready_at_; i < ready_now_.size(); ++i) ready_now_[i]->own_message();
  for (call* const each : ready_) each->own_message();
}

h2::stream& calls::open() {
  call* const made = new call(*this);
  made->batch = batch_;
  made->older = newest_;
  if (newest_ != nullptr) newest_->newer = made;
  newest_ = made;
  return *made;
}

/// Its message is here, and the peer sends no more. Of a stream: its header is, or what its handler
/// has waited for.
void calls::complete(call& which) {
  if (which.ready) return;
  ready_.push_back(&which);
  which.ready = true;
}

/// As long as the turn lasts, but one at least.
void calls::run(clock::time_point now) {
  if (ready_at_ == ready_now_.size()) {
    ready_now_.clear();
    ready_at_ = 0;
    ready_now_.swap(ready_);
  }
  const call* const last = ready_now_.empty() ? nullptr : ready_now_.back();
  while (ready_at_ < ready_now_.size() && !turn_.is_over()) {
    call* const each = ready_now_[ready_at_++];
    each->ready = false;
    if (each->state().is_running()) {
      go_on(*each);
    } else if (each->state().is_wanted()) {
      run(*each, now, each == last);
    } else {
      release(*each);
    }
  }
  if (has_ready() && turn_.is_over()) count(counted::slices);
}

/// Of a server that leaves, behind all other streams, and once each has been told of the drain.
/// False: there are none, or it is too early.
bool calls::end_lasting() {
  if (!at_.has_left_for_good()) return false;
  std::size_t lasting = 0;
  for (const call* each = newest_; each != nullptr; each = each->older) {
    lasting += each->is_settled() ? 1 : 0;
  }
  if (lasting == 0 || lasting < session_.streams()) return false;
  for (call* each = newest_; each != nullptr;) {
    call& which = *std::exchange(each, each->older);
    if (which.state().is_wanted()) which.fail(rpc::code::unavailable, "the server leaves");
  }
  return true;
}

/// Because calls wait too long (--queue-age-max).
bool calls::is_shed(const call& which, clock::time_point now) const noexcept {
  if (served_.queue_age == nullptr || which.called().options.vital) return false;
  return served_.queue_age->exceeded(now) ||
         (turn_.is_long(which.called().took) && served_.queue_age->exceeded_in_lane());
}

void calls::run(call& which, clock::time_point now, bool is_last) {
  if (which.deadline() <= now) {
    count(counted::started);
    count(counted::unserved);
    count(counted::cancelled);
    return which.fail(rpc::code::deadline_exceeded, "Deadline Exceeded");
  }
  if (is_shed(which, now)) {
    count(counted::started);
    count(counted::failed);
    count(counted::shed);
    return which.fail(rpc::code::unavailable, "calls wait too long for a worker");
  }
  if (!at_.may_hand_on() || session_.waiting_bytes() > common_.bounds.output_bytes_max) {
    return which.reset(h2::error::refused_stream);
  }
  if (!at_.may_answer()) return which.fail_for_memory();
  if (!which.make_handler()) return;
  count(counted::started);  // may throw, as the first that a thread counts
  at_.one_handed_on();
  if (which.is_streaming()) {
    which.start_stream();
    return look_at(which, false);
  }
  mean_time& took = which.called().took;
  place where = place::here;
  if (at_.may_hand_on()) {  // one may run here, whatever waits elsewhere
    where = turn_.place_of(took, is_last, common_.workers);
  }
  const bool has_ended = where == place::here
                             ? turn_.run(took, [&] { return which.start_unary(where); })
                             : which.start_unary(where);
  if (has_ended) ended(which);
}

/// Of a stream: its handler waits no more.
void calls::go_on(call& which) {
  do {  // ends: it waits for what is not there, or has ended, or the turn is over
    coroutine_waiter* const waits = which.messages().take_ready();
    if (waits == nullptr) break;
    which.messages().resume(*waits);
  } while (!turn_.is_over());
  look_at(which, false);
}

/// What the handler of a stream has left since.
void calls::look_at(call& which, bool from_inbox) {
  const message_pipe::left left = which.messages().collect(written_, from_inbox);
  const bool wanted = which.state().is_wanted();
  if (left.ended) count_end(which);
  if (left.paused) complete(which);
  if (wanted) {
    which.pass_on(left, written_);
  } else if (left.ended) {
    release(which);
  }
  h2::empty(written_);
}

/// Whether there may be another call of its method. Counts it, until it is freed.
bool calls::admits(call& which) {
  const std::size_t most = which.called().options.calls_max;
  if (most == std::numeric_limits<std::size_t>::max()) return true;
  auto known = std::ranges::find(bounded_, &which.called(), &decltype(bounded_)::value_type::first);
  if (known == bounded_.end()) known = bounded_.insert(known, {&which.called(), 0});
  if (known->second == most) return false;
  ++known->second;
  return which.counted = true;
}

void calls::take(inbox_entry& ended) {
  auto& which = static_cast<call&>(ended);
  if (which.is_streaming()) {
    look_at(which, true);
  } else {
    this->ended(which);
  }
}

/// Its handler has.
void calls::ended(call& which) {
  count_end(which);
  if (!which.state().is_wanted()) return release(which);
  which.answer();
}

void calls::count_end(call& which) noexcept {
  count(which.take_back());
  at_.one_came_back();
}

void calls::expire_calls(clock::time_point now) {
  while (!deadlines_.empty() && deadlines_.begin()->first <= now) {
    call& late = *deadlines_.begin()->second;
    late.fail(rpc::code::deadline_exceeded, "Deadline Exceeded");  // erases it
    late.cancel();
  }
}

void calls::settle(clock::time_point now) {
  expire_calls(now);
  for (call* each = newest_; each != nullptr && each->batch == batch_; each = each->older) {
    if (!each->state().is_wanted()) continue;
    if (each->deadline() == clock::time_point::max()) continue;
    deadlines_.emplace(each->deadline(), each);
    each->timed = true;
  }
}

/// Looks for calls that take too long: nothing is noted where a call runs its course.
void calls::sweep(clock::time_point now) {
  for (call* each = newest_; each != nullptr;) {
    call& which = *std::exchange(each, each->older);
    if (which.state().is_open()) sweep(which, now);
  }
}

void calls::sweep(call& which, clock::time_point now) {
  if (session_.is_stalled(which)) {
    common_.metrics.here().timed_out(metrics::timeout::write);
    return which.reset(h2::error::cancel);  // its handler is cancelled with it
  }
  if (which.state().is_answered() || at_.has_left()) return;
  // Of a stream that is not read, the handler is what takes its time.
  const bool reads = which.state().is_running() ? which.waits_for_rest() : !which.ready;
  if (reads && now - std::max(which.reads_since(), renewed_) >= common_.bounds.body_timeout) {
    common_.metrics.here().timed_out(metrics::timeout::body);
    which.fail(rpc::code::deadline_exceeded, "message not received in time");
  }
}

void calls::lost() noexcept {
  ready_.clear();
  ready_now_.clear();
  ready_at_ = 0;
  deadlines_.clear();
  borrower_ = nullptr;
  for (call* each = newest_; each != nullptr;) {
    call& lost = *std::exchange(each, each->older);
    lost.ready = lost.timed = false;
    lost.on_closed(h2::error::cancel);
  }
}

void calls::bury(inbox_entry& ended) noexcept {
  auto& which = static_cast<call&>(ended);
  if (which.is_streaming() && !which.messages().collect(written_, true).ended) return;
  count_end(which);
  release(which);
}

void calls::forget(inbox_entry& ended) noexcept {
  auto& which = static_cast<call&>(ended);
  if (which.is_streaming() && !which.messages().collect(written_, true).ended) return;
  static_cast<void>(which.take_back());
}

/// Its stream has become `answered`.
void calls::answered(call& which) noexcept {
  at_.note_answer();
  borrow_no_more(which);
  if (std::exchange(which.timed, false)) deadlines_.erase({which.deadline(), &which});
}

/// Frees it, unless somebody refers to it yet, who then comes here again.
void calls::release(call& which) noexcept {
  if (std::exchange(which.timed, false)) deadlines_.erase({which.deadline(), &which});
  if (!which.state().is_over() || which.ready) return;
  which.give_back_memory();
  if (which.counted) {
    --std::ranges::find(bounded_, &which.called(), &decltype(bounded_)::value_type::first)->second;
  }
  if (which.older != nullptr) which.older->newer = which.newer;
  (which.newer != nullptr ? which.newer->older : newest_) = which.older;
  delete &which;
}

/// Its handler was.
void calls::discarded(call& which) noexcept {
  which.ready = false;
  release(which);
  at_.one_discarded();
}

}  // namespace bwos::server::rpc
