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
      budget_(common_.bounds.request_bytes_max) {}

/// When the threads have been joined, their pool discards what runs yet, or has done so already.
calls::~calls() {
  while (call* const each = newest_) {
    newest_ = each->older_;
    if (each->running_) {
      each->calls_ = nullptr;
      coroutine_waiter* const waits = each->pipe_ ? each->pipe_->take_waiter() : nullptr;
      if (waits != nullptr) waits->finish(continuation::disposition::discard);
    } else {
      delete each;
    }
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
  made->batch_ = batch_;
  made->older_ = newest_;
  if (newest_ != nullptr) newest_->newer_ = made;
  newest_ = made;
  return *made;
}

/// Its message is here, and the peer sends no more. Of a stream: its header is, or what its handler
/// has waited for.
void calls::complete(call& which) {
  if (which.ready_) return;
  ready_.push_back(&which);
  which.ready_ = true;
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
    each->ready_ = false;
    if (each->running_) {
      go_on(*each);
    } else if (each->open_ && !each->answered_) {
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
  for (const call* each = newest_; each != nullptr; each = each->older_) {
    lasting += each->open_ && !each->answered_ && each->running_ &&
               each->head_.called->is_lasting && each->pipe_->is_settled();
  }
  if (lasting == 0 || lasting < session_.streams()) return false;
  for (call* each = newest_; each != nullptr;) {
    call& which = *std::exchange(each, each->older_);
    if (which.open_) which.fail(rpc::code::unavailable, "the server leaves");
  }
  return true;
}

/// Because calls wait too long (--queue-age-max).
bool calls::is_shed(const call& which, clock::time_point now) const noexcept {
  if (served_.queue_age == nullptr || which.head_.called->options.vital) return false;
  return served_.queue_age->exceeded(now) ||
         (turn_.is_long(which.head_.called->took) && served_.queue_age->exceeded_in_lane());
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
    answered(which);
    return session_.reset(which, h2::error::refused_stream);
  }
  if (!which.pipe_) {
    which.took_message();  // what it becomes is charged from here on
    if (!which.prepare_message()) return;
  }
  if (which.head_.called->writes_stream && !which.pipe_) {
    which.pipe_ = std::make_unique<message_pipe>(which);
  }
  if (which.pipe_) which.additions_ = std::make_unique<additions>();
  which.run_ = which.head_.called->make(which, *which.head_.called);  // may throw
  count(counted::started);
  which.running_ = true;
  at_.one_handed_on();
  if (!which.pipe_) {
    mean_time& took = which.head_.called->took;
    if (at_.may_hand_on()) {  // one may run here, whatever waits elsewhere
      which.place_ = turn_.place_of(took, is_last, common_.workers);
    }
    const bool has_ended = which.place_ == place::here
                               ? turn_.run(took, [&] { return which.run_.start(); })
                               : which.run_.start();
    if (has_ended) ended(which);
    return;
  }
  const bool has_ended = which.pipe_->run_here([&] { return which.run_.start(); });
  if (has_ended) (void)which.pipe_->run_here([&] { return which.pipe_->end(); });
  look_at(which, false);
}

/// Of a stream: its handler waits no more.
void calls::go_on(call& which) {
  do {  // ends: it waits for what is not there, or has ended, or the turn is over
    coroutine_waiter* const waits = which.pipe_->take_ready();
    if (waits == nullptr) break;
    which.pipe_->resume(*waits);
  } while (!turn_.is_over());
  look_at(which, false);
}

/// What the handler of a stream has left since.
void calls::look_at(call& which, bool from_inbox) {
  const message_pipe::left left = which.pipe_->collect(written_, from_inbox);
  const bool wanted = which.open_ && !which.answered_;
  if (left.ended) count_end(which);
  if (left.paused) complete(which);
  if (wanted) {
    which.took(left.read);
    if (!written_.empty()) {
      which.begin_answer();
      if (which.noted_) which.noted_->bytes += written_.size();
      session_.append(which, written_);
    }
    if (left.ended) {
      which.finish_answer();
    } else if (left.read > 0 && !which.pipe_->has_unread()) {
      which.make_room();
    }
  } else if (left.ended) {
    release(which);
  }
  h2::empty(written_);
}

/// Whether there may be another call of its method. Counts it, until it is freed.
bool calls::admits(call& which) {
  const std::size_t most = which.head_.called->options.calls_max;
  if (most == std::numeric_limits<std::size_t>::max()) return true;
  auto known =
      std::ranges::find(bounded_, which.head_.called, &decltype(bounded_)::value_type::first);
  if (known == bounded_.end()) known = bounded_.insert(known, {which.head_.called, 0});
  if (known->second == most) return false;
  ++known->second;
  return which.counted_ = true;
}

void calls::take(inbox_entry& ended) {
  auto& which = static_cast<call&>(ended);
  if (which.pipe_) {
    look_at(which, true);
  } else {
    this->ended(which);
  }
}

/// Its handler has.
void calls::ended(call& which) {
  count_end(which);
  if (!which.open_ || which.answered_) return release(which);
  which.answer();
}

void calls::count_end(call& which) noexcept {
  which.run_ = {};
  which.charge_.give_back(budget_);
  which.running_ = false;
  at_.one_came_back();
  if (!which.open_ || which.answered_) return count(counted::cancelled);
  which.status_ = std::move(which.result_);
  count(which.status_.ok() ? counted::ok : counted::failed);
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
  for (call* each = newest_; each != nullptr && each->batch_ == batch_; each = each->older_) {
    if (!each->header_done_ || each->answered_ || !each->open_) continue;
    if (each->deadline() == clock::time_point::max()) continue;
    deadlines_.emplace(each->deadline(), each);
    each->timed_ = true;
  }
}

/// Looks for calls that take too long: nothing is noted where a call runs its course.
void calls::sweep(clock::time_point now) {
  for (call* each = newest_; each != nullptr;) {
    call& which = *std::exchange(each, each->older_);
    if (which.open_ && which.header_done_) sweep(which, now);
  }
}

void calls::sweep(call& which, clock::time_point now) {
  if (session_.is_stalled(which)) {
    common_.metrics.here().timed_out(metrics::timeout::write);
    answered(which);
    return session_.reset(which, h2::error::cancel);  // its handler is cancelled with it
  }
  if (which.answered_ || at_.has_left()) return;
  // Of a stream that is not read, the handler is what takes its time.
  const bool reads =
      which.running_ ? which.missing_ > 0 && !which.pipe_->has_unread() : !which.ready_;
  if (reads && now - std::max(which.begun_, renewed_) >= common_.bounds.body_timeout) {
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
    call& lost = *std::exchange(each, each->older_);
    lost.cancel();
    lost.note_end("gRPC", static_cast<unsigned>(rpc::code::cancelled));
    lost.open_ = lost.ready_ = lost.timed_ = false;
    release(lost);
  }
}

void calls::bury(inbox_entry& ended) noexcept {
  auto& which = static_cast<call&>(ended);
  if (which.pipe_ && !which.pipe_->collect(written_, true).ended) return;
  which.run_ = {};
  which.running_ = false;
  at_.one_came_back();
  count(counted::cancelled);
  release(which);
}

void calls::forget(inbox_entry& ended) noexcept {
  auto& which = static_cast<call&>(ended);
  which.running_ = which.pipe_ && !which.pipe_->collect(written_, true).ended;
}

/// It gets, or has got, its last frame: nothing else may answer it.
void calls::answered(call& which) noexcept {
  which.answered_ = true;
  at_.note_answer();
  if (borrower_ == &which) borrower_ = nullptr;
  if (!which.running_) {  // else its message is the handler's
    which.forget_message();
    which.charge_.give_back(budget_);
    which.took_message();
  }
  if (std::exchange(which.timed_, false)) deadlines_.erase({which.deadline(), &which});
}

/// Frees it, unless somebody refers to it yet, who then comes here again.
void calls::release(call& which) noexcept {
  if (std::exchange(which.timed_, false)) deadlines_.erase({which.deadline(), &which});
  if (which.open_ || which.ready_ || which.running_) return;
  which.advance_.give_back(budget_);
  which.charge_.give_back(budget_);
  if (which.counted_) {
    --std::ranges::find(bounded_, which.head_.called, &decltype(bounded_)::value_type::first)
          ->second;
  }
  if (which.older_ != nullptr) which.older_->newer_ = which.newer_;
  (which.newer_ != nullptr ? which.newer_->older_ : newest_) = which.older_;
  delete &which;
}

/// When the threads have been joined: its handler will never go on.
void calls::discarded(call& which) noexcept {
  which.running_ = which.open_ = which.ready_ = false;
  release(which);
  at_.one_discarded();
}

}  // namespace bwos::server::rpc
