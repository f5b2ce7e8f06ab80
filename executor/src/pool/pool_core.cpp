// SPDX-License-Identifier: Apache-2.0
#include "pool/pool_core.hpp"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <stdexcept>

#include "pool/affinity.hpp"
#include "reactor/factory.hpp"

namespace bwos {
namespace {

unsigned groups_of(const options& settings, reactor_kind kind) {
  if (kind != reactor_kind::epoll || settings.reactor_group == 1 || settings.workers == 0 ||
      settings.reactor_threads != 0) {
    return 0;
  }
  return (settings.workers + settings.reactor_group - 1) / settings.reactor_group;
}

unsigned words_of(const options& settings, unsigned groups) {
  if (groups != 0) return groups;
  const unsigned slots = settings.workers + options::attached_max;
  return (slots + idle_set::word_workers_max - 1) / idle_set::word_workers_max;
}

bool is_inside(const pool_core& pool) noexcept {
  const worker_context* at = current_worker();
  while (at != nullptr && at->pool != &pool) at = at->outer;
  return at != nullptr;
}

/// The calling thread's worker, if it is one of `pool`'s.
worker* worker_of(const pool_core& pool) noexcept {
  worker_context* const here = current_worker();
  return here != nullptr && here->pool == &pool ? static_cast<worker*>(here) : nullptr;
}

}  // namespace

pool_core::pool_core(const options& wanted) : pool_core(wanted, choose_reactor(wanted.reactor)) {}

pool_core::pool_core(const options& wanted, reactor_choice choice)
    : settings(wanted),
      ticks_per_us(measure_ticks_per_us()),
      long_work(std::max(2U, wanted.workers) - 1,
                static_cast<ticks>(wanted.lane_age.count()) * ticks_per_us),
      idle(groups_of(wanted, choice.kind) != 0 ? idle_set::form::counted : idle_set::form::named,
           words_of(wanted, groups_of(wanted, choice.kind)),
           std::max(1U, wanted.workers / 2 / words_of(wanted, groups_of(wanted, choice.kind)))),
      monitor(*this, wanted.workers + options::attached_max),
      choice_(std::move(choice)),
      groups_(groups_of(wanted, choice_.kind)) {
  slots_.reserve(settings.workers + options::attached_max);
  for (unsigned i = 0; i < groups_; ++i) {
    reactors_.push_back(make_reactor(choice_.kind, true, settings));
    homes_.push_back(reactors_.back().get());
  }
  for (unsigned i = 0; i < settings.reactor_threads; ++i) {
    reactors_.push_back(make_reactor(choice_.kind, false, settings));
    homes_.push_back(reactors_.back().get());
  }
  for (unsigned i = 0; i < settings.workers; ++i) {
    reactor* const own = add_worker().home;
    if (groups_ == 0 && own != nullptr) homes_.push_back(own);
  }
}

/// Under slots_lock_, or before the threads start. Groups are filled evenly.
worker& pool_core::add_worker() {
  const auto index = static_cast<unsigned>(slots_.size());
  reactor* home = nullptr;
  unsigned word = index / idle_set::word_workers_max;
  const unsigned bit = index % idle_set::word_workers_max;
  if (groups_ != 0) {
    word = index % groups_;
    home = reactors_[word].get();
  } else if (choice_.kind != reactor_kind::none && settings.reactor_threads == 0) {
    reactors_.push_back(make_reactor(choice_.kind, false, settings));
    home = reactors_.back().get();
  }
  slots_.push_back(std::make_unique<worker>(*this, index, home, groups_ != 0, word, bit));
  // [pool.slots.publish] release: who sees the count sees the worker. Partner: [pool.slots.read].
  slot_count_.store(index + 1, std::memory_order_release);
  return *slots_.back();
}

void pool_core::start() {
  try {
    for (unsigned i = 0; i < settings.workers; ++i) {
      threads_.emplace_back([this, i]() noexcept { slots_[i]->run(); });
      ::pthread_setname_np(threads_.back().native_handle(), ("bwos-" + std::to_string(i)).c_str());
      if (settings.pin) pin_thread(threads_.back().native_handle(), i);
    }
    if (settings.workers > 1) monitor.start();
    if (settings.reactor_threads != 0) dedicated_.start();
  } catch (...) {
    stop();
    join();
    throw;
  }
}

pool_core::~pool_core() {
  stop();
  join();
  {
    std::unique_lock guard(join_lock_);
    join_signal_.wait(guard, [&] { return attached_inside_ == 0; });
  }
  monitor.join();  // one that was attached after join() may have begun it anew
  discard_all();
}

void pool_core::discard_all() noexcept {
  for (;;) {  // ends: what is discarded frees, and posts at most what frees the rest of itself
    continuation_chain rest = inject.pop(~std::size_t{0});
    long_work.drain(rest);
    for (const auto& each : slots_) each->drain(rest);
    for (const auto& each : reactors_) each->drain(rest);
    if (rest.empty()) return;
    while (continuation* const work = rest.take_first()) {
      work->invoke(*work, continuation::disposition::discard);
    }
  }
}

void pool_core::post(continuation& work) noexcept {
  if (worker* const here = worker_of(*this)) {
    here->post(work);
  } else {
    detail::refuse(in_child(), "post to a pool in a child of fork(), where it has no workers");
    inject.push(work);
    wake_one(0);
  }
}

/// One wake-up is all that a batch deserves before anybody knows how long its tasks take: the
/// worker that finds more than one sends the next. Where workers share a processor with this
/// reactor thread they go first, so that its next batch is larger (measured on one core, 64 and 256
/// connections: a request costs 0.75 and 0.72 of what it does without, with two cores 0.79 and
/// 0.83).
void pool_core::deliver(continuation_chain ready) noexcept {
  inject.push(ready);
  wake_one(0);
  ::sched_yield();
}

void pool_core::yield(continuation& work) noexcept {
  if (worker* const here = worker_of(*this)) {
    here->yield(work);
  } else {
    post(work);
  }
}

void pool_core::post_long(lane_entry& entry) noexcept {
  if (worker* const here = worker_of(*this)) {
    here->post_long(entry);
  } else {
    detail::refuse(in_child(), "post to a pool in a child of fork(), where it has no workers");
    long_work.push(entry);
    if (long_work.open()) wake_one(0);
    monitor.wake();
  }
}

bool pool_core::wake_one(unsigned first) noexcept {
  const idle_set::claim_result claim = idle.claim(first);
  if (!claim.claimed) return false;
  if (groups_ != 0) {
    reactors_[claim.word]->wake();
  } else {
    slots_[claim.word * idle_set::word_workers_max + claim.bit]->wake();
  }
  return true;
}

void pool_core::wake_all() noexcept {
  // Shared sets count tokens, so each of their workers finds one; a private one takes what comes.
  for (unsigned i = 0; i < slots(); ++i) slots_[i]->wake();
}

void pool_core::attach() {
  detail::refuse(in_child(), "attach to a pool in a child of fork()");
  if (stopping()) return;
  worker* mine = nullptr;
  {
    const std::lock_guard guard(slots_lock_);
    if (slots_.size() == slots_.capacity()) {
      throw std::length_error("bwos::pool::attach: " + std::to_string(options::attached_max) +
                              " threads are attached already");
    }
    if (slots() != 0) monitor.start();
    mine = &add_worker();
    {
      const std::lock_guard inside(join_lock_);
      ++attached_inside_;
    }
    monitor.wake_for_certain();
  }
  mine->run();
  const std::lock_guard inside(join_lock_);
  --attached_inside_;
  join_signal_.notify_all();
}

void pool_core::stop() noexcept {
  // [pool.stop] seq_cst: a worker that parks announces itself and then looks at it; or it was set
  // before. Partner: [pool.stopping].
  stopping_.store(true, std::memory_order_seq_cst);
  if (in_child()) return;  // there is nobody to wake, and the reactors are the parent's
  wake_all();
  monitor.wake_for_certain();
  if (settings.reactor_threads != 0) dedicated_.stop();
  note_progress();
}

void pool_core::give_up() noexcept {
  // [pool.give_up] relaxed: seen by this thread, and there is no other. Partner: none (one thread).
  stopping_.store(true, std::memory_order_relaxed);
}

void pool_core::work_started() noexcept {
  // [pool.work.start] relaxed: the caller holds other work or owns the pool, so join() cannot end
  // meanwhile. Partner: [pool.work.read].
  outstanding_.fetch_add(1, std::memory_order_relaxed);
}

void pool_core::work_finished() noexcept {
  // [pool.work.finish] seq_cst: joiner and finisher cannot miss each other. Partner:
  // [pool.work.read].
  if (outstanding_.fetch_sub(1, std::memory_order_seq_cst) == 1) note_progress();
}

void pool_core::note_progress() noexcept {
  // [pool.joining.look] seq_cst: comes after what has changed; the joiner looks after announcing
  // itself. Partner: [pool.joining].
  if (!joining_.load(std::memory_order_seq_cst)) return;
  const std::lock_guard guard(join_lock_);
  ++progress_;
  join_signal_.notify_all();
}

void pool_core::join() {
  detail::refuse(in_child(), "join of a pool in a child of fork(), where it has no workers");
  detail::refuse(is_inside(*this),
                 "join, or the end, of a pool inside one of its own workers, which would wait for "
                 "itself");
  {
    std::unique_lock guard(join_lock_);
    // [pool.joining] seq_cst: before the first look at what the workers do. Partner:
    // [pool.joining.look].
    joining_.store(true, std::memory_order_seq_cst);
    for (;;) {
      const std::uint64_t seen = progress_;
      guard.unlock();
      const bool over = stopping() || quiescent();
      guard.lock();
      if (over) break;
      join_signal_.wait(guard, [&] { return progress_ != seen; });
    }
  }
  stop();
  const std::lock_guard once(threads_lock_);
  for (std::thread& each : threads_) each.join();
  threads_.clear();
  dedicated_.join();
  const std::lock_guard attaching(slots_lock_);
  monitor.join();
}

/// Nothing is queued and nothing runs that could queue more: all workers are parked, with empty
/// queues (they look before they announce themselves), the inject queue is empty and no work is
/// outstanding; and no worker has left its place between the two looks at them, so all of it held
/// at one moment.
bool pool_core::quiescent() const noexcept {
  const std::uint64_t before = departures();
  if (!all_parked() || inject.maybe_nonempty() || long_work.nonempty()) return false;
  // [pool.work.read] seq_cst: joiner and finisher cannot miss each other. Partner:
  // [pool.work.finish].
  if (outstanding_.load(std::memory_order_seq_cst) != 0) return false;
  return all_parked() && departures() == before;
}

std::uint64_t pool_core::departures() const noexcept {
  std::uint64_t sum = 0;
  for (unsigned i = 0; i < slots(); ++i) sum += slots_[i]->departures();
  return sum;
}

pool_statistics pool_core::statistics() const {
  pool_statistics result;
  for (unsigned i = 0; i < slots(); ++i) result.workers.push_back(slots_[i]->statistics());
  result.inject_depth = inject.size_relaxed();
  result.lane_depth = long_work.depth();
  result.parked = idle.parked();
  result.searching = idle.searching();
  result.reactor = choice_.kind;
  result.reactor_note = choice_.note;
  result.reactor_refused = choice_.refused;
  return result;
}

/// By the rate at which the counter has run since the pool's birth: ticks_per_us, measured in a
/// moment, can be wrong by whatever interrupted that. A counter that runs ahead on another
/// processor makes an age of 0.
worker_turn pool_core::turn_of(unsigned index) const noexcept {
  const ticks began = slots_[index]->turn_began();
  const ticks now = now_ticks();
  if (began == 0) return {};
  if (now <= began || now <= born_ticks_) return {.began = began, .age = {}};
  const std::chrono::duration<double, std::micro> lived = std::chrono::steady_clock::now() - born_;
  const double share = static_cast<double>(now - began) / static_cast<double>(now - born_ticks_);
  return {.began = began,
          .age = std::chrono::duration_cast<std::chrono::microseconds>(lived * share)};
}

/// A thief's own counts: having time, it may as well serve what is old elsewhere.
std::chrono::milliseconds pool_core::queue_age(
    std::chrono::steady_clock::time_point now) const noexcept {
  const worker* const here = worker_of(*this);
  if (here != nullptr && here->home != nullptr) return here->home->age.get(now);
  std::chrono::milliseconds most{0};
  for (const reactor* const each : homes_) most = std::max(most, each->age.get(now));
  return most;
}

std::chrono::microseconds pool_core::lane_age() const noexcept {
  return std::chrono::microseconds(long_work.age() / ticks_per_us);
}

}  // namespace bwos
