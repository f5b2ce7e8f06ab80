// SPDX-License-Identifier: Apache-2.0
#include "checks.hpp"

#include <algorithm>

#include "cases.hpp"

namespace bwos::simulation {
namespace {

/// What the monitor takes at most, by README.md: where many tasks are long, and elsewhere. And what
/// waking and looking may take.
constexpr nanoseconds close_max = 2 * millisecond;
constexpr nanoseconds wide_max = 7 * millisecond;
constexpr nanoseconds noise = 300 * microsecond;
/// A backlog that its owner does not reach the end of sooner deserves a wake-up.
constexpr nanoseconds deserving = 30 * microsecond;

}  // namespace

checks::checks(simulated_pool& pool)
    : pool_(pool), here_(pool.book.here), behind_tasks_(pool.form.workers) {
  here_.before_jump = [this](nanoseconds until) { look(until); };
}

void checks::look(nanoseconds until) {
  if (!pool_.all.stopping()) check(until);
  preempted_ = here_.preempted();
}

void checks::check(nanoseconds until) {
  check_sleepers();
  check_open();
  if (pool_.all.idle.parked() == 0) {
    for (waiting& each : behind_tasks_) each = {};
    in_lane_ = {};
    in_timers_ = {};
    return;
  }
  check_lane(until);
  check_timers(until);
  expect(pool_.all.inject.size_relaxed() == 0, "wake.inject",
         "the inject queue is not empty, and nobody was woken");
  if (!pool_.all.steals) return;
  for (unsigned i = 0; i < pool_.form.workers; ++i) {
    check_monitor(i, until);
    check_victim(i);
  }
}

bool checks::sleeps(unsigned worker) const noexcept {
  return pool_.thread_of(worker).now == thread::state::waiting;
}

/// A search ends when its worker has work or parks, and who is claimed wakes up: so nobody searches
/// now, and the idle word counts those who wait.
void checks::check_sleepers() const {
  unsigned sleepers = 0;
  for (unsigned i = 0; i < pool_.form.workers; ++i) {
    if (sleeps(i)) ++sleepers;
    expect(!sleeps(i) || !pool_.has_something_to_steal(i), "no_sleep_on_work", "worker ", i,
           " sleeps on tasks of its own queue");
  }
  expect(pool_.all.idle.searching() == 0, "search.ends", pool_.all.idle.searching(),
         " are said to search, and nobody does");
  expect(pool_.all.idle.parked() == sleepers, "idle.counts", pool_.all.idle.parked(),
         " are said to be parked, and ", sleepers, " wait");
}

/// What waits behind a task is open to thieves.
void checks::check_open() const {
  if (!pool_.all.steals || pool_.in_own_queues() == 0) return;
  for (unsigned i = 0; i < pool_.form.workers; ++i) {
    if (pool_.has_something_to_steal(i)) return;
  }
  here_.fail("open_to_thieves", "tasks wait in a worker's queue, and no thief can see them");
}

/// Whether `laned` is worth a wake-up where the lane has room: not as the only post of a task that
/// still runs.
bool checks::is_deserved(const task& laned) const {
  if (laned.laned_by == nullptr) return true;
  for (unsigned i = 0; i < pool_.form.workers; ++i) {
    const ledger::running_task& at = pool_.book.running(i);
    // Without stealing, what else it has posted is for itself alone.
    if (at.what == laned.laned_by) return (pool_.all.steals ? at.posted : at.laned) > 1;
  }
  return true;
}

void checks::check_lane(nanoseconds until) {
  if (!pool_.all.long_work.nonempty()) {
    in_lane_ = {};
    return;
  }
  if (pool_.all.long_work.has_room()) {
    for (const task& each : pool_.book.tasks()) {
      expect(each.where != task::place::lane || !is_deserved(each), "wake.lane", "task ",
             each.index, " waits in the lane, which has room");
    }
  }
  const nanoseconds pushed = here_.now() - pool_.all.long_work.age();
  const nanoseconds of_age =
      pushed + static_cast<nanoseconds>(pool_.all.settings.lane_age.count()) * microsecond / 8;
  lies_there(in_lane_, pushed);
  in_lane_.since = std::max(in_lane_.since, of_age);
  expect(!too_long(in_lane_, wide_max, until), "monitor.lane",
         "the lane's oldest entry could be served above the cap from ", of_age / microsecond,
         " us on, and nobody was woken");
}

/// Whether a worker sleeps that looks after these deadlines.
bool checks::has_sleeper(const timer_service& timers) const noexcept {
  for (unsigned i = 0; i < pool_.form.workers; ++i) {
    if (sleeps(i) && pool_.all.slot(i).timers == &timers) return true;
  }
  return false;
}

/// Whoever is free fires what is due in its reactor, or in the pool's where there are none.
void checks::check_timers(nanoseconds until) {
  const task* first = nullptr;
  for (const task& each : pool_.book.tasks()) {
    if (each.where != task::place::asleep || !has_sleeper(*each.timers)) continue;
    if (first == nullptr || each.due < first->due) first = &each;
  }
  if (first == nullptr) {
    in_timers_ = {};
    return;
  }
  lies_there(in_timers_, first->index);
  in_timers_.since = std::max(in_timers_.since, first->due);
  expect(!too_long(in_timers_, close_max, until), "timers", "task ", first->index, " was due at ",
         first->due / microsecond, " us, and nobody was woken");
}

/// What a task has left behind it.
void checks::check_victim(unsigned index) const {
  const ledger::running_task& at = pool_.book.running(index);
  if (at.what == nullptr || !pool_.has_something_to_steal(index)) return;
  const nanoseconds mean = pool_.all.slot(index).time().mean_task();
  // What it has put into the lane counts there: of its own queue's tasks the first one runs next.
  const unsigned posted = at.posted - at.laned;
  expect(posted < (mean > deserving ? 1 : 2), "wake.posts", "worker ", index, "'s task ",
         at.what->index, " has posted ", posted, ", its mean is ", mean,
         " ns, something waits in its queue, and nobody was woken");
  for (unsigned i = 0; i < pool_.form.workers; ++i) {
    if (i != index && pool_.has_something_to_steal(i)) return;  // whose they are is not known
  }
  const std::size_t behind =
      pool_.in_own_queues() - std::min<std::size_t>(posted, pool_.in_own_queues());
  expect(behind * mean <= deserving, "wake.backlog", "worker ", index, "'s task ", at.what->index,
         " has ", behind, " behind it, its mean is ", mean, " ns, and nobody was woken");
}

void checks::check_monitor(unsigned index, nanoseconds until) {
  waiting& queue = behind_tasks_[index];
  const task* const running = pool_.book.running(index).what;
  if (running == nullptr || !pool_.has_something_to_steal(index)) {
    queue = {};
    return;
  }
  lies_there(queue, running->index);
  bool closely = false;
  for (unsigned i = 0; i < pool_.form.workers; ++i) {
    closely = closely || pool_.all.slot(i).time().is_often_long();
  }
  if (!closely) queue.closely = false;
  expect(!too_long(queue, queue.closely ? close_max : wide_max, until), "monitor.steal",
         "what waits behind worker ", index, "'s task ", running->index, " was not found since ",
         queue.since / microsecond, " us");
}

void checks::lies_there(waiting& what, std::uint64_t key) const {
  if (what.since != never && what.key == key) return;
  // Who lost its processor since the look before may have lost it between a sleep's deadline and
  // the sleep.
  what = {.since = here_.now(), .preempted = preempted_, .key = key};
}

bool checks::too_long(const waiting& what, nanoseconds most, nanoseconds until) const {
  const nanoseconds preempted = here_.preempted() - what.preempted;
  return until > what.since + most + noise + preempted;
}

void checks::expect_batches() {
  for (const auto& each : pool_.reactors()) {
    each->on_taken = [this](const continuation_chain& events) {
      const auto in_queue = [this] { return pool_.in_own_queues(); };
      const std::size_t before = here_.between_steps(in_queue);
      pool_.book.taken_from_reactor(events);
      const std::size_t after = here_.between_steps(in_queue);
      expect(after <= reactor::batch, "poll.fills_one_batch", "a poll behind ", before,
             " tasks makes them ", after, ", and a batch is ", reactor::batch);
    };
  }
}

}  // namespace bwos::simulation
