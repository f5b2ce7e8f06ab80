// SPDX-License-Identifier: Apache-2.0
#include "pool/pool_core.hpp"

#include <pthread.h>

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>

#include "base/system_call.hpp"
#include "io/factory.hpp"
#include "pool/affinity.hpp"
#include "pool/start_gate.hpp"

namespace bwos {
namespace {

/// Reactors that are shared by groups of workers; 0: none are.
unsigned groups_of(const options& settings, reactor_kind kind) {
  if (kind != reactor_kind::epoll || settings.reactor_group == 1 || settings.workers == 0 ||
      settings.reactor_threads != 0) {
    return 0;
  }
  return (settings.workers + settings.reactor_group - 1) / settings.reactor_group;
}

std::vector<std::unique_ptr<reactor>> make_reactors(unsigned count, bool shared, reactor_kind kind,
                                                    const options& settings) {
  std::vector<std::unique_ptr<reactor>> made;
  for (unsigned i = 0; i < count; ++i) made.push_back(make_reactor(kind, shared, settings));
  return made;
}

std::vector<reactor*> pointers_to(const std::vector<std::unique_ptr<reactor>>& reactors) {
  std::vector<reactor*> result;
  for (const auto& each : reactors) result.push_back(each.get());
  return result;
}

}  // namespace

pool_core::pool_core(const options& wanted) : pool_core(wanted, choose_reactor(wanted.reactor)) {}

pool_core::pool_core(const options& wanted, reactor_choice choice)
    : settings(wanted),
      choice_(std::move(choice)),
      reactors_(make_reactors(groups_of(wanted, choice_.kind), true, choice_.kind, wanted)),
      work_(settings, pointers_to(reactors_)),
      slots_used_(settings.workers) {
  if (reactors_.empty() && choice_.kind != reactor_kind::none) {
    const unsigned count =
        settings.reactor_threads != 0 ? settings.reactor_threads : settings.workers;
    reactors_ = make_reactors(count, false, choice_.kind, settings);
  }
  homes_ = pointers_to(reactors_);
}

/// A reactor each.
bool pool_core::workers_have_own() const noexcept {
  return settings.reactor_threads == 0 && choice_.kind != reactor_kind::none && !work_.has_groups();
}

/// `own`: its reactor, where workers have one each.
std::unique_ptr<worker> pool_core::make_worker(unsigned index, reactor* own) {
  reactor* const shared = work_.assignment_of(index).home;
  timer_service* const elsewhere =
      settings.reactor_threads == 0 ? nullptr : &homes_[index % homes_.size()]->timers;
  return std::make_unique<worker>(work_, index, this, shared != nullptr ? shared : own, elsewhere);
}

void pool_core::start() {
  try {
    start_workers();
    if (settings.workers != 0) start_monitor();
    if (settings.reactor_threads != 0) dedicated_.start();
  } catch (...) {
    stop();
    join();
    throw;
  }
}

/// Each is built by its own thread, once that is where it shall be: so its queue, which it touches
/// first, lies in memory that is near.
void pool_core::start_workers() {
  const bool have_own = workers_have_own();
  const auto gate = std::make_shared<start_gate>();
  const auto be_worker = [this, gate, have_own](unsigned index) noexcept {
    std::exception_ptr failure;
    try {
      if (settings.pin) pin_thread(::pthread_self(), index);
      work_.install(index, make_worker(index, have_own ? homes_[index] : nullptr));
    } catch (...) {
      failure = std::current_exception();
    }
    if (!gate->arrive_and_wait(std::move(failure))) return;
    if (waits_.worker_begins()) {
      work_.slot(index).run();
      waits_.worker_left();
    }
  };
  try {
    for (unsigned i = 0; i < settings.workers; ++i) {
      threads_.emplace_back(be_worker, i);
      ::pthread_setname_np(threads_.back().native_handle(), ("bwos-" + std::to_string(i)).c_str());
    }
    gate->wait_for(settings.workers);
  } catch (...) {
    gate->open(false);
    throw;
  }
  work_.publish(settings.workers);
  gate->open(true);
}

/// Once more does nothing. Throws std::system_error.
void pool_core::start_monitor() {
  if (monitor_thread_.joinable()) return;
  monitor_thread_ = std::thread([this]() noexcept { work_.watch.run(); });
  ::pthread_setname_np(monitor_thread_.native_handle(), "bwos-monitor");
}

void pool_core::join_monitor() {
  if (monitor_thread_.joinable()) monitor_thread_.join();
}

pool_core::~pool_core() {
  stop();
  join();
  {
    std::unique_lock guard(attached_lock_);
    detached_.wait(guard, [&] { return attached_ == 0; });
  }
  join_monitor();  // one that was attached after join() may have begun it anew
  discard_all();
  waits_.wait_until_all_have_left();
  discard_all();  // what their discards have posted
}

void pool_core::discard_all() noexcept {
  for (;;) {  // ends: what is discarded frees, and posts at most what frees the rest of itself
    continuation_chain rest;
    {
      const std::lock_guard guard(waits_.lock());
      work_.drain(rest);
      for (const auto& each : reactors_) each->drain(rest);
    }
    if (rest.empty() && !end_residents()) return;
    rest.discard_all();
  }
}

/// Nobody runs (pool_waits.hpp, O2). The rest stays where it would have been, in its order.
void pool_core::take_parts(detail::waited_work wanted, continuation_chain& parts) noexcept {
  if (wanted.is_posted == nullptr) return;
  continuation_chain all;
  work_.drain_queues(all);
  continuation_chain rest;
  while (continuation* const work = all.take_first()) {
    (wanted.is_posted(*work, wanted.whole) ? parts : rest).append(*work);
  }
  if (!rest.empty()) work_.inject.push(rest);
}

/// The same for a worker, whose wait the pool's end waits for: at last whatever it may wait for.
void pool_core::take_all(continuation_chain& parts) noexcept {
  work_.timers.expire_all(parts);
  for (const auto& each : reactors_) each->drain(parts);
  if (parts.empty()) work_.drain_queues(parts);
}

void pool_core::wait_for(const detail::outside_wait& me, const detail::join_word& end,
                         detail::waited_work work) noexcept {
  const auto is_over = [&] { return end.over(); };
  const auto take = [&](continuation_chain& parts) { take_parts(work, parts); };
  if (detail::forks::here(*this) == nullptr) {
    waits_.wait(me, is_over, take);
  } else {
    waits_.wait_in_worker(me, is_over, [&](continuation_chain& parts) {
      take(parts);
      if (parts.empty()) take_all(parts);
    });
  }
}

detail::outside_wait::outside_wait(pool_core& of) noexcept : of_(of), parker_(lent_parker::take()) {
  of_.waits().enter(*this);
}

detail::outside_wait::~outside_wait() {
  of_.waits().leave(*this);
  lent_parker::give_back(parker_);
}

void detail::outside_wait::until(join_word& end, waited_work work) noexcept {
  if (end.announce(parker_)) of_.wait_for(*this, end, work);
}

/// Where workers share a processor with this reactor thread they go first, so that its next batch
/// is larger (measured on one core, 64 and 256 connections: a request costs 0.75 and 0.72 of what
/// it does without, with two cores 0.79 and 0.83).
void pool_core::deliver(continuation_chain ready) noexcept {
  work_.inject_all(ready);
  system_call::yield_processor();
}

void pool_core::attach() {
  detail::refuse(in_child(), "attach to a pool in a child of fork()");
  if (work_.stopping()) return;
  worker* mine = nullptr;
  {
    const std::lock_guard guard(slots_lock_);
    if (slots_used_ == settings.workers + options::attached_max) {
      throw std::length_error("bwos::pool::attach: " + std::to_string(options::attached_max) +
                              " threads are attached already");
    }
    if (work_.slots() != 0) start_monitor();
    reactor* own = nullptr;
    if (workers_have_own()) {
      reactors_.push_back(make_reactor(choice_.kind, false, settings));
      own = reactors_.back().get();
    }
    work_.install(slots_used_, make_worker(slots_used_, own));
    mine = &work_.slot(slots_used_);
    work_.publish(++slots_used_);
    {
      const std::lock_guard inside(attached_lock_);
      ++attached_;
    }
    work_.watch.wake_for_certain();
  }
  if (waits_.worker_begins()) {
    mine->run();
    waits_.worker_left();
  }
  const std::lock_guard inside(attached_lock_);
  --attached_;
  detached_.notify_all();
}

void pool_core::stop() noexcept {
  work_.stop();
  if (!in_child()) waits_.stopping();
  if (!in_child() && settings.reactor_threads != 0) dedicated_.stop();
}

void pool_core::join() {
  detail::refuse(in_child(), "join of a pool in a child of fork(), where it has no workers");
  detail::refuse(work_.is_inside(),
                 "join, or the end, of a pool inside one of its own workers, which would wait for "
                 "itself");
  work_.moved.wait([&] { return work_.stopping() || work_.quiescent(); });
  stop();
  const std::lock_guard once(threads_lock_);
  for (std::thread& each : threads_) each.join();
  threads_.clear();
  dedicated_.join();
  const std::lock_guard attaching(slots_lock_);
  join_monitor();
}

pool_statistics pool_core::statistics() const {
  pool_statistics result;
  for (unsigned i = 0; i < work_.slots(); ++i) {
    result.workers.push_back(work_.slot(i).statistics());
    result.stealable.push_back(work_.slot(i).stealable());
  }
  result.inject_depth = work_.inject.size_relaxed();
  result.lane_depth = work_.long_work.depth();
  result.parked = work_.idle.parked();
  result.searching = work_.idle.searching();
  result.reactor = choice_.kind;
  result.reactor_note = choice_.note;
  result.reactor_refused = choice_.refused;
  return result;
}

/// By the rate at which the counter has run since the pool's birth: ticks_per_us, measured in a
/// moment, can be wrong by whatever interrupted that. A counter that runs ahead on another
/// processor makes an age of 0.
worker_turn pool_core::turn_of(unsigned index) const noexcept {
  const ticks began = work_.slot(index).time().turn_began();
  const ticks now = now_ticks();
  if (began == 0) return {};
  if (now <= began || now <= born_ticks_) return {.began = began, .age = {}};
  const std::chrono::duration<double, std::micro> lived = steady_now() - born_;
  const double share = static_cast<double>(now - began) / static_cast<double>(now - born_ticks_);
  return {.began = began,
          .age = std::chrono::duration_cast<std::chrono::microseconds>(lived * share)};
}

/// A thief's own counts: having time, it may as well serve what is old elsewhere.
std::chrono::milliseconds pool_core::queue_age(
    std::chrono::steady_clock::time_point now) const noexcept {
  const worker* const here = work_.here();
  if (here != nullptr && here->home != nullptr) return here->home->age.get(now);
  std::chrono::milliseconds most{0};
  for (const reactor* const each : homes_) most = std::max(most, each->age.get(now));
  return most;
}

std::chrono::microseconds pool_core::lane_age() const noexcept {
  return std::chrono::microseconds(work_.long_work.age() / work_.ticks_per_us);
}

}  // namespace bwos
