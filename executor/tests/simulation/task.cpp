// SPDX-License-Identifier: Apache-2.0
#include "task.hpp"

#include <utility>

#include "cases.hpp"
#include "io/worker_context.hpp"
#include "scheduler/scheduler.hpp"

namespace bwos::simulation {

void task::on_invoke(continuation& self, disposition how) noexcept {
  auto& mine = static_cast<task&>(self);
  if (how == disposition::discard) {
    expect(mine.where != place::done && mine.where != place::running, "once", "task ", mine.index,
           " is discarded after it has run");
    mine.book_.move(mine, place::discarded);
    return;
  }
  mine.go_on();
}

/// Runs to the plan's end, or until it hands itself on: then it may be running elsewhere, and
/// nothing of it is touched.
void task::go_on() noexcept {
  expect(where == place::queued || where == place::lane || where == place::ready, "once", "task ",
         index, " is run, and nobody has posted it");
  ledger& book = book_;
  book.move(*this, place::running);
  book.count(*this);
  ledger::running_task& mine = book.mine();
  mine = {.what = this, .began = book.here.now()};
  bool handed_on = false;
  while (!handed_on && done_ != plan.size()) {
    const action next = plan[done_++];
    switch (next.what) {
      case action::kind::compute:
        book.here.compute(next.span);
        break;
      case action::kind::post:
        ++mine.posted;
        book.post(*next.child);
        break;
      case action::kind::post_long:
        ++mine.posted;
        ++mine.laned;
        next.child->laned_by = this;
        book.post_long(*next.child);
        break;
      case action::kind::yield:
        handed_on = true;
        book.move(*this, place::queued);
        book.all.yield(*this);
        break;
      case action::kind::sleep:
        handed_on = true;
        sleep(next.span);
        break;
    }
  }
  mine = {};
  if (!handed_on) book.move(*this, place::done);
}

void task::sleep(nanoseconds span) noexcept {
  book_.move(*this, place::asleep);
  timers = current_worker()->timers;
  due = book_.here.now() + span;
  const auto when = std::chrono::steady_clock::time_point(std::chrono::nanoseconds(due));
  const timer_service::lock guard = timers->acquire();
  timers->arm(guard, *this, wheel::due_tick(when));
}

void task::on_due(timer_entry& self) noexcept {
  auto& mine = static_cast<task&>(self);
  const bool ends = mine.timers->firing_at() == wheel::never;
  expect(ends || mine.book_.here.now() >= mine.due, "timers", "task ", mine.index,
         " is woken before its time");
  mine.book_.move(mine, place::queued);
  mine.timers->ready(mine);
}

task& ledger::plan() {
  ++unfinished_;
  return tasks_.emplace_back(*this, tasks_.size());
}

void ledger::post(task& work) noexcept {
  move(work, task::place::queued);
  all.post(work);
  if (work.where == task::place::queued) count(work);
}

void ledger::post_long(task& work) noexcept {
  move(work, task::place::lane);
  all.post_long(work.entry);
  if (work.where == task::place::lane) count(work);
}

void ledger::taken_from_reactor(const continuation_chain& events) noexcept {
  for (continuation* each = events.first; each != nullptr; each = each->next) {
    auto& taken = static_cast<task&>(*each);
    if (taken.where == task::place::ready) move(taken, task::place::queued);
  }
}

void ledger::move(task& work, task::place to) noexcept {
  if (work.where == task::place::queued) --queued_;
  if (to == task::place::queued) ++queued_;
  work.where = to;
  const bool over = to == task::place::done || to == task::place::discarded;
  // A task that sleeps is its timer's, and the pool may have nothing to do.
  if (over || to == task::place::asleep) surely_unfinished_ -= std::exchange(work.counted_, false);
  if (over && --unfinished_ == 0) here.wake(this);
}

/// From a moment on at which it is queued, or runs.
void ledger::count(task& work) noexcept {
  if (std::exchange(work.counted_, true)) return;
  if (surely_unfinished_++ == 0) idle_last_ = here.now();
}

ledger::running_task& ledger::mine() noexcept {
  return workers_[current_worker()->index];
}

void ledger::check_all(bool stopped_early) const {
  for (const task& each : tasks_) {
    const bool over =
        each.where == task::place::done ||
        (stopped_early && (each.where == task::place::discarded ||
                           each.where == task::place::planned || each.where == task::place::ready));
    expect(over, "once", "task ", each.index, " was left in place ",
           static_cast<unsigned>(each.where));
  }
}

}  // namespace bwos::simulation
