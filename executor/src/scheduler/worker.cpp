// SPDX-License-Identifier: Apache-2.0
#include "scheduler/worker.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "base/system_call.hpp"
#include "scheduler/scheduler.hpp"

namespace bwos {
namespace {

/// Yielding before parking pays while polls return this many events: the peers on other cores are
/// about to send more. Measured on a prototype: always yielding took p99 to 3.6x at 64 connections.
constexpr unsigned yield_events_min = 12;
/// A busy worker that has met somebody at the inject queue's lock in so many slices waits for it.
constexpr unsigned inject_misses_max = 8;

}  // namespace

worker::worker(scheduler& all, unsigned index_of_it, pool_core* of, reactor* reactor_home,
               timer_service* elsewhere)
    : all_(all),
      word_(all.assignment_of(index_of_it).word),
      bit_(all.assignment_of(index_of_it).bit),
      in_group_(all.assignment_of(index_of_it).home != nullptr),
      slice_(all.settings, all.ticks_per_us),
      search_(all, index_of_it, word_, counters_),
      sleeper_(all, index_of_it, word_, reactor_home, in_group_, counters_),
      forks_(all, index_of_it, of, counters_),
      own_(queue_.as_owner()) {
  pool = of;
  scheduled_by = &all;
  index = index_of_it;
  home = reactor_home;
  timers = home != nullptr ? &home->timers : elsewhere != nullptr ? elsewhere : &all.timers;
  if (timers != &all.timers) {  // there are sockets
    scratch_memory_ = std::make_unique_for_overwrite<std::byte[]>(all.settings.receive_bytes);
    scratch = {scratch_memory_.get(), all.settings.receive_bytes};
  }
}

void worker::run() {
  outer = set_current_worker(this);
  detail::forks* const outer_forks = detail::set_current_forks(&forks_);
  forks_.begin();
  if (home != nullptr) home->start();
  slice_.begin(now_ticks());
  while (!all_.stopping()) {
    serve_lane(true);
    const bool held_forks = holds_forks_;
    bool spent = run_own_queue();
    if (held_forks) {  // events have had their turn
      slice_.begin(now_ticks());
      run_forks();
    }
    spent = spent || holds_forks_;
    if (spent) all_.stay_in_parent();
    const bool fetched = fetch_injected(spent);
    if (spent) {
      poll();
      slice_.begin(now_ticks());
    } else if (!fetched && !find_work()) {
      park();
    }
  }
  all_.stay_in_parent();
  forks_.finish();
  detail::set_current_forks(outer_forks);
  set_current_worker(outer);
}

/// Runs the own queue until it is empty (false) or the slice is spent (true).
bool worker::run_own_queue() noexcept {
  slice_.begin_run(now_ticks());
  bool spent = all_.stopping();  // also in a child of fork(), where nothing more may run
  continuation* next = nullptr;
  while (!spent && own_.get(next)) {
    if (backlog_ != 0) --backlog_;
    posted_ = 0;
    before_task();
    counters_.run.add(1);
    run_task(*next);
    if (slice_.count_task()) slice_.note_time(now_ticks());
    spent = slice_.spent() || all_.stopping();
  }
  // Dry as well: it may look for work elsewhere. What has yielded waits for the reactor's turn.
  if (spent && !slice_.ended_early() && !all_.stopping() && own_.empty()) spent = false;
  if (!spent) backlog_ = 0;
  has_successor_ = false;
  if (slice_.lacks_time()) slice_.note_time(now_ticks());
  counters_.get.add(slice_.end_run());
  return spent;
}

/// What it has forked belongs to it, and runs before the next task; but for what waits until events
/// have had their turn.
void worker::run_task(continuation& next) noexcept {
  next.invoke(next, continuation::disposition::run);
  if (forks_.pending() && !holds_forks_) [[unlikely]] {
    run_forks();
  }
}

void worker::run_forks() noexcept {
  holds_forks_ = !forks_.run_all();
  if (!holds_forks_) return;
  counters_.fork_yield.add(1);
  slice_.end_early();
}

/// The rest of the front block is opened to thieves, so that nothing waits behind a long task while
/// somebody is idle, now or later. Then its search ends, as it has work: before it decides whom to
/// wake, or it would be its own excuse for waking nobody.
void worker::before_task() noexcept {
  const bool opened = all_.steals && own_.share();
  if (opened) counters_.share.add(1);
  // Where the front block is used up there is nothing to open, but later blocks are.
  has_successor_ = all_.steals && (opened || backlog_ != 0);
  if (has_successor_) all_.watch.wake();
  const bool must_look = search_.end();
  const found gave = search_.take_gave();
  const bool tells_nothing = !has_successor_ && !must_look && gave == found::nothing;
  if (tells_nothing ? !all_.long_work.glance() : !all_.idle.may_claim()) return;
  wake_situation now = situation();
  now.lane_open = all_.long_work.glance();
  now.gave = gave;
  wake_reason why = why_wake(now, all_.ticks_per_us);
  if (why == wake_reason::none && must_look) {
    now.others_have_work = others_have_work();
    why = why_wake(now, all_.ticks_per_us);
  }
  wake_somebody(why);
}

/// What a poster may have counted on this searcher for (idle_set.hpp, I2).
bool worker::others_have_work() noexcept {
  return all_.inject.maybe_nonempty() || all_.long_work.open() || search_.look().any ||
         forks_.others_have_some();
}

wake_situation worker::situation() const noexcept {
  return {.backlog = backlog_,
          .mean_task = slice_.mean_task(),
          .has_successor = has_successor_,
          .posted = posted_};
}

void worker::wake_somebody(wake_reason why) noexcept {
  if (why != wake_reason::none && all_.wake_one(word_)) counters_.wake.add(1);
}

/// Open to thieves at once, whatever the running task does next.
void worker::post(continuation& work, wake_rule rule) noexcept {
  put(work);
  ++posted_;
  if (!all_.steals) return;
  own_.share();
  all_.watch.wake();
  if (!all_.idle.may_claim()) return;
  wake_situation now = situation();
  now.asked = rule == wake_rule::at_once;
  wake_somebody(why_wake(now, all_.ticks_per_us));
}

/// As post(), in the lane.
void worker::post_long(lane_entry& entry) noexcept {
  all_.long_work.push(entry);
  ++posted_;
  all_.watch.wake();
  if (all_.long_work.open()) wake_somebody(why_wake(situation(), all_.ticks_per_us));
}

void worker::yield(continuation& work) noexcept {
  yielded_.append(work);
  slice_.end_early();
}

void worker::put(continuation& work) noexcept {
  counters_.put.add(1);
  ++backlog_;
  if (!own_.put(&work)) [[unlikely]] {
    spill(work);
  }
}

/// The own queue is full: the rest of its front block, its oldest tasks, goes to the inject queue
/// with `work` behind them, in one operation and in order. Then there is room, unless a thief is
/// still reading the block: no matter, the next put spills again.
void worker::spill(continuation& work) noexcept {
  counters_.queue_full.add(1);
  std::array<continuation*, worker_queue::block_entries> oldest;
  const std::size_t count = own_.drain_front(oldest.data(), oldest.size());
  continuation_chain chain;
  for (std::size_t i = 0; i < count; ++i) chain.append(*oldest[i]);
  chain.append(work);
  counters_.spill.add(chain.count);
  backlog_ -= std::min(chain.count, backlog_);
  all_.inject.push(chain);
  wake_somebody(wake_reason::posts);
}

/// Its portion of what is there, so that a deep queue costs few locks: up to a block's worth where
/// the own queue is dry, and no more than a steal's where it is not, so that a flood from outside
/// cannot put an ever longer backlog before the reactor's events. Never more than fits, or tasks
/// would be spilled right back, behind younger ones.
bool worker::fetch_injected(bool has_work) noexcept {
  constexpr std::size_t room = worker_queue::capacity - worker_queue::block_entries;
  if (backlog_ >= room) return false;
  std::size_t portion =
      std::min(all_.inject.size_relaxed() / all_.slots(), worker_queue::block_entries);
  portion -= std::min(portion, backlog_);
  const std::size_t wanted =
      std::min(std::max<std::size_t>(portion, all_.settings.steal_batch), room - backlog_);
  const bool patient = !has_work || inject_misses_ == inject_misses_max;
  continuation_chain fetched = patient ? all_.inject.pop(wanted) : all_.inject.try_pop(wanted);
  const bool missed = !patient && fetched.empty() && all_.inject.size_relaxed() != 0;
  inject_misses_ = missed ? inject_misses_ + 1 : 0;
  if (fetched.empty()) return false;
  counters_.inject_get.add(fetched.count);
  search_.note(fetched.count > 1 ? found::more : found::one);
  put_all(std::move(fetched));
  return true;
}

void worker::put_all(continuation_chain&& ready) noexcept {
  while (continuation* const next = ready.take_first()) put(*next);
}

/// The own queue and the inject queue are empty. On a shared set the others' backlog comes first,
/// as it is what this worker's connections may be waiting behind; a private reactor's events wait
/// for nobody else.
bool worker::find_work() noexcept {
  const bool any = in_group_ ? steal() || poll() : poll() || steal();
  if (any || run_stolen_fork() || serve_lane(false) || yield_and_poll()) {
    slice_.begin(now_ticks());
    return true;
  }
  return false;
}

bool worker::steal() noexcept {
  return search_.begin() && put_stolen(search_.steal());
}

bool worker::run_stolen_fork() noexcept {
  detail::forked* const entry = forks_.steal_patiently();
  if (entry == nullptr) return false;
  slice_.begin(now_ticks());
  posted_ = 0;
  before_task();
  forks_.run_stolen(*entry);
  if (forks_.pending()) run_forks();
  return true;
}

bool worker::put_stolen(std::span<continuation* const> stolen) noexcept {
  for (continuation* const each : stolen) put(*each);
  return !stolen.empty();
}

/// What is ready now goes behind what is queued, and what has yielded goes behind that. It polls
/// for what its queue lacks: what it leaves in a shared set others can take at once, while what
/// waits in its queue must be found there. A queue that never runs short, of tasks that post
/// others, lets events in all the same, but no more than it has just run.
bool worker::poll() noexcept {
  constexpr std::size_t let_in_max = reactor::batch / 8;
  const std::size_t lacking = reactor::batch - std::min(backlog_, reactor::batch);
  const std::size_t wanted = std::max(lacking, std::min(let_in_max, slice_.tasks()));
  continuation_chain ready;
  if (home != nullptr) {
    if (wanted != 0) home->poll(ready, wanted);
    counters_.polls.add(1);
  } else if (all_.timers.due()) {
    all_.timers.advance(ready);
  }
  const bool any = !ready.empty() || !yielded_.empty();
  put_reaped(std::move(ready));
  put_all(std::exchange(yielded_, {}));
  return any;
}

void worker::put_reaped(continuation_chain&& ready) noexcept {
  if (ready.empty()) return;
  counters_.events.add(ready.count);
  mean_events_x8_ += static_cast<unsigned>(ready.count) - mean_events_x8_ / 8;
  put_all(std::move(ready));
}

/// Runs one task of the lane, the oldest, if it is of age or the worker has nothing else to do.
bool worker::serve_lane(bool aged_only) noexcept {
  if (aged_only ? !all_.long_work.has_aged() : !all_.long_work.glance()) return false;
  const auto [next, aged] = all_.long_work.take(aged_only);
  if (next == nullptr) return false;
  counters_.lane_run.add(1);
  if (aged) counters_.lane_aged.add(1);
  posted_ = 0;
  before_task();
  const ticks begun = now_ticks();
  run_task(*next);
  const ticks length = now_ticks() - begun;
  slice_.note_length(length);
  all_.stay_in_parent();
  all_.long_work.done(length);
  if (slice_.ended_early()) poll();  // what it yielded is hidden until then
  slice_.begin(now_ticks());
  return true;
}

bool worker::yield_and_poll() noexcept {
  if (home == nullptr || mean_events_x8_ < 8 * yield_events_min) return false;
  system_call::yield_processor();
  return poll();
}

void worker::park() noexcept {
  all_.idle.announce(word_, bit_, search_.give_up());
  search::sighting seen;
  continuation_chain ready;
  bool token = false;
  const bool stay = must_stay_awake(seen);
  if (!stay) {
    search_.looked_everywhere();
    counters_.park.add(1);
    all_.moved.note();
    slice_.end_turn();
    token = sleeper_.sleep(ready);
  }
  search_.claimed(all_.idle.leave(word_, bit_, token));
  // [worker.depart] seq_cst: join()'s double look sees that it left in between. Partner:
  // [worker.departures.read].
  departures_.fetch_add(1, std::memory_order_seq_cst);
  slice_.begin(now_ticks());
  if (seen.any) {
    put_stolen(search_.steal(seen));
  } else if (!stay && ready.empty() && !search_.is_on()) {
    counters_.spurious_wake.add(1);
  }
  put_reaped(std::move(ready));
}

/// The last look before sleeping (idle_set.hpp, I1): all that a poster may have published without
/// claiming this worker.
bool worker::must_stay_awake(search::sighting& seen) noexcept {
  if (!own_.empty() || !yielded_.empty() || all_.inject.maybe_nonempty() || all_.long_work.open() ||
      all_.stopping()) {
    return true;
  }
  const bool missed = forks_.expose_others();
  seen = search_.look();
  return seen.any || missed || forks_.others_have_granted();
}

void worker::drain(continuation_chain& sink) noexcept {
  continuation* next = nullptr;
  while (own_.get(next)) sink.append(*next);
  while (continuation* const later = yielded_.take_first()) sink.append(*later);
}

}  // namespace bwos
