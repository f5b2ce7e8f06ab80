// SPDX-License-Identifier: Apache-2.0
#include "scheduler/scheduler.hpp"

#include <algorithm>
#include <utility>

#include "scheduler/worker.hpp"

namespace bwos {
namespace {

unsigned words_of(const options& settings) {
  const unsigned slots = settings.workers + options::attached_max;
  return (slots + idle_set::word_workers_max - 1) / idle_set::word_workers_max;
}
unsigned words_of(const options& settings, std::size_t groups) {
  return groups == 0 ? words_of(settings) : static_cast<unsigned>(groups);
}

/// Where the machine is not known, workers are equally far from each other.
std::unique_ptr<worker_places> places_of(const options& settings) {
  if (settings.steal != steal_kind::topology) return nullptr;
  return std::make_unique<worker_places>(topology::read(),
                                         settings.workers + options::attached_max);
}

}  // namespace

scheduler::scheduler(const options& wanted, std::vector<reactor*> groups)
    : settings(wanted),
      steals(wanted.steal != steal_kind::none),
      places(places_of(wanted)),
      ticks_per_us(measure_ticks_per_us()),
      long_work(std::max(2U, wanted.workers) - 1,
                static_cast<ticks>(wanted.slice.count()) * ticks_per_us,
                static_cast<ticks>(wanted.lane_age.count()) * ticks_per_us),
      idle(groups.empty() ? idle_set::form::named : idle_set::form::counted,
           words_of(wanted, groups.size()),
           std::max(1U, wanted.workers / 2 / words_of(wanted, groups.size()))),
      waits(idle_set::form::named, words_of(wanted), 1),
      watch(*this, wanted.workers + options::attached_max),
      timers(watch.parker()),
      groups_(std::move(groups)),
      slots_(settings.workers + options::attached_max) {
  for (unsigned i = 0; i < slots_.size(); ++i) assignments_.push_back(assign(i));
  for (unsigned group = 0; group < idle.words(); ++group) {
    group_sizes_.push_back(first_in(group + 1) - first_in(group));
  }
}

scheduler::~scheduler() = default;

worker* scheduler::here() const noexcept {
  worker_context* const current = current_worker();
  return current != nullptr && current->scheduled_by == this ? static_cast<worker*>(current)
                                                             : nullptr;
}

bool scheduler::is_inside() const noexcept {
  const worker_context* at = current_worker();
  while (at != nullptr && at->scheduled_by != this) at = at->outer;
  return at != nullptr;
}

/// Groups are filled evenly, and neighbours share one: pinned workers of a group are neighbours on
/// the machine. Attached threads follow in turn.
scheduler::assignment scheduler::assign(unsigned index) const noexcept {
  if (groups_.empty())
    return {.word = index / idle_set::word_workers_max, .bit = index % idle_set::word_workers_max};
  const auto groups = static_cast<unsigned>(groups_.size());
  const unsigned word = index < settings.workers ? index * groups / settings.workers
                                                 : (index - settings.workers) % groups;
  return {.word = word, .bit = 0, .home = groups_[word]};
}

void scheduler::install(unsigned index, std::unique_ptr<worker> next) noexcept {
  slots_[index] = std::move(next);
}

void scheduler::publish(unsigned count) noexcept {
  // [scheduler.slots.publish] release: who sees the count sees the worker. Partner:
  // [scheduler.slots.read].
  slot_count_.store(count, std::memory_order_release);
}

void scheduler::post(continuation& work, wake_rule rule) noexcept {
  if (worker* const mine = here()) {
    mine->post(work, rule);
  } else {
    detail::refuse(in_child(), "post to a pool in a child of fork(), where it has no workers");
    inject.push(work);
    wake_one(0);
  }
}

/// One wake-up is all that a batch deserves before anybody knows how long its tasks take: the
/// worker that finds more than one sends the next.
void scheduler::inject_all(const continuation_chain& ready) noexcept {
  inject.push(ready);
  wake_one(0);
}

void scheduler::yield(continuation& work) noexcept {
  if (worker* const mine = here()) {
    mine->yield(work);
  } else {
    post(work);
  }
}

void scheduler::post_long(lane_entry& entry) noexcept {
  if (worker* const mine = here()) {
    mine->post_long(entry);
  } else {
    detail::refuse(in_child(), "post to a pool in a child of fork(), where it has no workers");
    long_work.push(entry);
    if (long_work.open()) wake_one(0);
    watch.wake();
  }
}

bool scheduler::wake_one(unsigned first) noexcept {
  const idle_set::claim_result claim = idle.claim(first);
  if (!claim.claimed) return false;
  if (groups_.empty()) {
    slot(claim.word * idle_set::word_workers_max + claim.bit).wake();
  } else {
    groups_[claim.word]->wake();
  }
  return true;
}

void scheduler::wake_for_forks(unsigned from) noexcept {
  if (idle.may_claim() && wake_one(assignment_of(from).word)) return;
  if (!waits.may_claim()) return;
  const idle_set::claim_result claim = waits.claim(from / idle_set::word_workers_max);
  if (claim.claimed) slot(claim.word * idle_set::word_workers_max + claim.bit).forks().wake();
}

void scheduler::wake_all() noexcept {
  // Shared sets count tokens, so each of their workers finds one; a private one takes what comes.
  for (unsigned i = 0; i < slots(); ++i) slot(i).wake();
}

void scheduler::stop() noexcept {
  // [scheduler.stop] seq_cst: a worker that parks announces itself and then looks at it; or it was
  // set before. Partner: [scheduler.stopping].
  stopping_.store(true, std::memory_order_seq_cst);
  if (in_child()) return;  // there is nobody to wake, and the reactors are the parent's
  wake_all();
  for (unsigned i = 0; i < slots(); ++i) slot(i).forks().wake();
  watch.wake_for_certain();
  moved.note();
}

void scheduler::give_up() noexcept {
  // [scheduler.give_up] relaxed: seen by this thread, and there is no other. Partner: none (one
  // thread).
  stopping_.store(true, std::memory_order_relaxed);
}

void scheduler::work_started() noexcept {
  // [scheduler.work.start] relaxed: the caller holds other work or owns the pool, so join() cannot
  // end meanwhile. Partner: [scheduler.work.read].
  outstanding_.fetch_add(1, std::memory_order_relaxed);
}

void scheduler::work_finished() noexcept {
  // [scheduler.work.finish] seq_cst: joiner and finisher cannot miss each other. Partner:
  // [scheduler.work.read].
  if (outstanding_.fetch_sub(1, std::memory_order_seq_cst) == 1) moved.note();
}

/// All workers are parked, with empty queues (they look before they announce themselves), the
/// inject queue is empty and no work is outstanding; and no worker has left its place between the
/// two looks at them, so all of it held at one moment.
bool scheduler::quiescent() const noexcept {
  const std::uint64_t before = departures();
  if (!all_parked() || inject.maybe_nonempty() || long_work.nonempty()) return false;
  // [scheduler.work.read] seq_cst: joiner and finisher cannot miss each other. Partner:
  // [scheduler.work.finish].
  if (outstanding_.load(std::memory_order_seq_cst) != 0) return false;
  return all_parked() && departures() == before;
}

std::uint64_t scheduler::departures() const noexcept {
  std::uint64_t sum = 0;
  for (unsigned i = 0; i < slots(); ++i) sum += slot(i).departures();
  return sum;
}

void scheduler::drain(continuation_chain& sink) noexcept {
  drain_queues(sink);
  timers.expire_all(sink);
}

void scheduler::drain_queues(continuation_chain& sink) noexcept {
  while (continuation* const work = inject.pop()) sink.append(*work);
  long_work.drain(sink);
  for (unsigned i = 0; i < slots(); ++i) slot(i).drain(sink);
}

}  // namespace bwos
