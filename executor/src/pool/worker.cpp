// SPDX-License-Identifier: Apache-2.0
#include "pool/worker.hpp"

#include <sched.h>

#include <algorithm>

#include "pool/pool_core.hpp"
#include "steal/random_block.hpp"

namespace bwos {
namespace {

/// A backlog is worth a wake-up when the owner will not reach its end sooner: about what waking a
/// thread costs. Measured on a prototype.
constexpr ticks worth_waking_us = 30;
/// Yielding before parking pays while polls return this many events: the peers on other cores are
/// about to send more. Measured on a prototype: always yielding took p99 to 3.6x at 64 connections.
constexpr unsigned yield_events_min = 12;
/// While tasks take less than a microsecond on average, the clock (8.5 ns to read on the machine
/// where this was measured, a third of a short task) is looked at once in so many.
constexpr unsigned short_tasks_per_look = 8;
/// A task is long; and a worker that has not begun a turn for twice as long may be in one.
constexpr ticks long_task_us = 50;
/// With more long tasks than these, in 65,536ths, a worker does not soon look at its shared set
/// again. Preemption makes one task in a hundred seem long where a load generator is on the same
/// processors; with one in eleven long, naps take p99 of the others from .8 to 1.3 ms.
constexpr unsigned long_share_max = 65'536 / 25;
/// What gets ready while all who are awake are in long tasks waits for so long at most.
constexpr int nap_ms = 1;
/// A busy worker that has met somebody at the inject queue's lock in so many slices waits for it.
constexpr unsigned inject_misses_max = 8;

}  // namespace

worker::worker(pool_core& pool, unsigned index, reactor* home_reactor, bool shared, unsigned word,
               unsigned bit)
    : pool_(pool),
      word_(word),
      bit_(bit),
      shared_(shared),
      steals_(pool.settings.steal != steal_kind::none),
      random_(index),
      scratch_memory_(
          pool.homes().empty() && home_reactor == nullptr
              ? nullptr
              : std::make_unique_for_overwrite<std::byte[]>(pool.settings.receive_bytes)),
      own_timers_(-1),
      own_(queue_.as_owner()) {
  mean_task_ = pool.ticks_per_us;  // not known yet: the clock is looked at after each task
  worker_context::pool = &pool;
  worker_context::index = index;
  home = home_reactor;
  timers = &own_timers_;
  if (home != nullptr) {
    timers = &home->timers;
  } else if (!pool.homes().empty()) {
    timers = &pool.homes()[index % pool.homes().size()]->timers;  // a reactor thread fires them
  }
  if (scratch_memory_ != nullptr) scratch = {scratch_memory_.get(), pool.settings.receive_bytes};
}

void worker::run() {
  outer = set_current_worker(this);
  if (home != nullptr) home->start();
  begin_slice();
  while (!pool_.stopping()) {
    serve_lane(true);
    const bool spent = run_local();
    if (spent) pool_.stay_in_parent();
    const bool injected = take_inject(spent);
    if (spent) {
      poll();
      begin_slice();
    } else if (!injected && !find_work()) {
      park();
    }
  }
  pool_.stay_in_parent();
  set_current_worker(outer);
}

/// Runs the own queue until it is empty (false) or the slice is spent (true). Before each task the
/// rest of its block is opened to thieves, so that nothing waits behind a long task while somebody
/// is idle, now or later.
bool worker::run_local() noexcept {
  const ticks start = now_ticks();
  const unsigned clock_stride = mean_task_ < pool_.ticks_per_us ? short_tasks_per_look : 1;
  unsigned ran = 0;
  bool spent = pool_.stopping();  // also in a child of fork(), where nothing more may run
  ticks now = start;
  continuation* work = nullptr;
  while (!spent && own_.get(work)) {
    if (backlog_ != 0) --backlog_;
    posted_ = 0;
    expose_backlog();
    if (searching_ || found_ != found::nothing) stop_searching();
    counters_.run.add(1);
    work->invoke(*work, continuation::disposition::run);
    ++ran;
    if (ran % clock_stride == 0) note_length(now);
    spent = ++slice_tasks_ >= pool_.settings.slice_tasks || now >= slice_end_ || slice_over_ ||
            pool_.stopping();
  }
  if (!spent) backlog_ = 0;
  left_behind_ = false;
  if (ran != 0) {
    if (ran % clock_stride != 0) note_length(now);
    counters_.get.add(ran);
    mean_task_ = (7 * mean_task_ + (now - start) / ran) / 8;
  }
  return spent;
}

/// A task, or a few short ones, began at `since` and ends now.
void worker::note_length(ticks& since) noexcept {
  const ticks now = now_ticks();
  const bool is_long = now - std::exchange(since, now) > long_task_us * pool_.ticks_per_us;
  const unsigned share = long_share();
  // [worker.long.note] relaxed: publishes nothing but itself, written here alone. Partner:
  // [worker.long.read].
  long_share_.store(share - share / 256 + (is_long ? 256 : 0), std::memory_order_relaxed);
}

void worker::expose_backlog() noexcept {
  const bool opened = steals_ && own_.share();
  if (opened) counters_.share.add(1);
  // Where the front block is used up there is nothing to open, but later blocks are.
  left_behind_ = steals_ && (opened || backlog_ != 0);
  bool wanted = pool_.long_work.glance();
  if (left_behind_) {
    pool_.monitor.wake();
    wanted = wanted || backlog_ * mean_task_ > worth_waking_us * pool_.ticks_per_us;
  }
  if (wanted && pool_.idle.sleeper_unsearched(word_) && pool_.wake_one(word_)) {
    counters_.wake.add(1);
  }
}

/// Open to thieves at once, whatever the running task does next. One task alone is its poster's:
/// it runs next, and waking somebody for it costs more than it; should the running task be long,
/// the monitor will. Two are a backlog.
void worker::post(continuation& work) noexcept {
  put(work);
  ++posted_;
  if (!steals_) return;
  own_.share();
  pool_.monitor.wake();
  if ((posted_ > 1 || left_behind_) && pool_.idle.sleeper_unsearched(word_) &&
      pool_.wake_one(word_)) {
    counters_.wake.add(1);
  }
}

/// As post(), in the lane.
void worker::post_long(lane_entry& entry) noexcept {
  pool_.long_work.push(entry);
  ++posted_;
  pool_.monitor.wake();
  const bool backlog = posted_ > 1 || left_behind_;
  if (backlog && pool_.long_work.open() && pool_.wake_one(word_)) counters_.wake.add(1);
}

void worker::yield(continuation& work) noexcept {
  yielded_.append(work);
  slice_over_ = true;
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
  std::array<continuation*, queue::block_entries> oldest;
  const std::size_t count = own_.drain_front(oldest.data(), oldest.size());
  continuation_chain chain;
  for (std::size_t i = 0; i < count; ++i) chain.append(*oldest[i]);
  chain.append(work);
  counters_.spill.add(chain.count);
  backlog_ -= chain.count < backlog_ ? chain.count : backlog_;
  pool_.inject.push(chain);
  if (pool_.wake_one(word_)) counters_.wake.add(1);
}

/// Its share of what is there, so that a deep queue costs few locks: up to a block's worth where
/// the own queue is dry, and no more than a steal's where it is not, so that a flood from outside
/// cannot put an ever longer backlog before the reactor's events. Never more than fits, or tasks
/// would be spilled right back, behind younger ones.
bool worker::take_inject(bool has_work) noexcept {
  constexpr std::size_t room = queue::capacity - queue::block_entries;
  if (backlog_ >= room) return false;
  std::size_t share = std::min(pool_.inject.size_relaxed() / pool_.slots(), queue::block_entries);
  share -= std::min(share, backlog_);
  const std::size_t wanted =
      std::min(std::max<std::size_t>(share, pool_.settings.steal_batch), room - backlog_);
  const bool patient = !has_work || inject_misses_ == inject_misses_max;
  continuation_chain taken = patient ? pool_.inject.pop(wanted) : pool_.inject.try_pop(wanted);
  const bool missed = !patient && taken.empty() && pool_.inject.size_relaxed() != 0;
  inject_misses_ = missed ? inject_misses_ + 1 : 0;
  if (taken.empty()) return false;
  counters_.inject_get.add(taken.count);
  found_ = taken.count > 1 ? found::more : found::one;
  deliver(std::move(taken));
  return true;
}

void worker::deliver(continuation_chain&& ready) noexcept {
  while (continuation* const work = ready.take_first()) put(*work);
}

void worker::begin_slice() noexcept {
  const ticks now = now_ticks();
  slice_tasks_ = 0;
  slice_over_ = false;
  slice_end_ = now + static_cast<ticks>(pool_.settings.slice.count()) * pool_.ticks_per_us;
  note_turn(now);
}

/// The own queue and the inject queue are empty. On a shared set the others' backlog comes first,
/// as it is what this worker's connections may be waiting behind; a private reactor's events wait
/// for nobody else.
bool worker::find_work() noexcept {
  const bool any = shared_ ? steal() || poll() : poll() || steal();
  if (any || serve_lane(false) || yield_and_poll()) {
    begin_slice();
    return true;
  }
  return false;
}

/// What is ready now goes behind what is queued, and what has yielded goes behind that.
bool worker::poll() noexcept {
  continuation_chain ready;
  if (home != nullptr) {
    home->poll(ready);
    counters_.polls.add(1);
  } else {
    own_timers_.advance(ready);
  }
  if (!ready.empty()) {
    counters_.events.add(ready.count);
    mean_events_x8_ += static_cast<unsigned>(ready.count) - mean_events_x8_ / 8;
  }
  const bool any = !ready.empty() || !yielded_.empty();
  deliver(std::move(ready));
  deliver(std::exchange(yielded_, {}));
  return any;
}

/// Runs one task of the lane: the oldest if it is of age, or, when there is nothing else to do, if
/// fewer than the cap are at it.
bool worker::serve_lane(bool aged_only) noexcept {
  if (aged_only ? !pool_.long_work.has_aged() : !pool_.long_work.glance()) return false;
  const auto [work, aged] = pool_.long_work.take(aged_only);
  if (work == nullptr) return false;
  if (searching_ || found_ != found::nothing) stop_searching();
  counters_.lane_run.add(1);
  if (aged) counters_.lane_aged.add(1);
  posted_ = 0;
  expose_backlog();
  ticks begun = now_ticks();
  work->invoke(*work, continuation::disposition::run);
  note_length(begun);
  pool_.stay_in_parent();
  pool_.long_work.done();
  if (slice_over_) poll();  // what it yielded is hidden until then
  begin_slice();
  return true;
}

bool worker::yield_and_poll() noexcept {
  if (home == nullptr || mean_events_x8_ < 8 * yield_events_min) return false;
  ::sched_yield();
  return poll();
}

bool worker::steal() noexcept {
  const unsigned workers = pool_.slots();
  if (!steals_ || workers == 1) return false;
  if (!searching_) {
    if (!pool_.idle.begin_search(word_)) return false;
    searching_ = true;
  }
  counters_.steal_try.add(1);
  std::uint64_t conflicts = 0;
  for (unsigned i = 1; i < workers; ++i) {  // as many random victims as there are others
    worker& victim = pool_.slot((index + 1 + random_.below(workers - 1)) % workers);
    std::size_t block = 0;
    const std::size_t count =
        steal_from_random_block(victim.thief(), random_, stolen_.data(), pool_.settings.steal_batch,
                                queue::block_count, block, conflicts);
    if (count == 0) continue;
    counters_.steal_conflict.add(conflicts);
    return take_stolen(victim, block, count);
  }
  counters_.steal_conflict.add(conflicts);
  return false;
}

bool worker::take_stolen(worker& victim, std::size_t block, std::size_t count) noexcept {
  counters_.steal_hit.add(1);
  counters_.steal_entries.add(count);
  for (std::size_t i = 0; i < count; ++i) put(*stolen_[i]);
  found_ = count > 1 || victim.thief().sample(block) ? found::more : found::one;
  return true;
}

/// It has work, and everything but the task at hand is open to thieves. If a steal or the inject
/// queue gave more than that task, the next one may search, because nobody knows yet how long these
/// tasks take; if they gave one, the last searcher looks whether there is more elsewhere
/// (idle_set.hpp, I2). What a poll gave is judged by expose_backlog().
void worker::stop_searching() noexcept {
  const found gave = std::exchange(found_, found::nothing);
  bool more = gave == found::more;
  if (std::exchange(searching_, false)) {
    if (!pool_.idle.end_search(word_)) return;
    if (gave == found::one) more = something_to_steal().victim != nullptr;
    more = more || pool_.inject.maybe_nonempty() || pool_.long_work.open();
  }
  if (more && pool_.wake_one(word_)) counters_.wake.add(1);
}

void worker::park() noexcept {
  pool_.idle.announce(word_, bit_, std::exchange(searching_, false));
  place where;
  continuation_chain ready;
  bool token = false;
  const bool stay = look_everywhere(where);
  if (!stay) {
    counters_.park.add(1);
    pool_.note_progress();
    token = sleep(ready);
  }
  searching_ = pool_.idle.leave(word_, bit_, token);
  // [worker.depart] seq_cst: join()'s double look sees that it left in between. Partner:
  // [worker.departures.read].
  departures_.fetch_add(1, std::memory_order_seq_cst);
  begin_slice();
  if (where.victim != nullptr) {
    std::uint64_t conflicts = 0;
    const std::size_t count = steal_from_block(where.victim->thief(), where.block, stolen_.data(),
                                               pool_.settings.steal_batch, conflicts);
    counters_.steal_conflict.add(conflicts);
    if (count != 0) take_stolen(*where.victim, where.block, count);
    if (where.more) found_ = found::more;
  } else if (!stay && ready.empty() && !searching_) {
    counters_.spurious_wake.add(1);
  }
  if (!ready.empty()) {
    counters_.events.add(ready.count);
    mean_events_x8_ += static_cast<unsigned>(ready.count) - mean_events_x8_ / 8;
    deliver(std::move(ready));
  }
}

/// The last look before sleeping (idle_set.hpp, I1): all that a poster may have published without
/// claiming this worker.
bool worker::look_everywhere(place& where) noexcept {
  if (!own_.empty() || !yielded_.empty() || pool_.inject.maybe_nonempty() ||
      pool_.long_work.open() || pool_.long_work.has_aged() || pool_.stopping()) {
    return true;
  }
  where = something_to_steal();
  return where.victim != nullptr;
}

/// Every block of every other worker.
worker::place worker::something_to_steal() noexcept {
  place where;
  if (!steals_) return where;
  const unsigned workers = pool_.slots();
  for (unsigned i = 1; i < workers; ++i) {
    worker& victim = pool_.slot((index + i) % workers);
    const queue::thief blocks = victim.thief();
    for (std::size_t block = 0; block < queue::block_count; ++block) {
      if (!blocks.sample(block)) continue;
      where.more = where.victim != nullptr;
      if (where.more) return where;
      where.victim = &victim;
      where.block = block;
    }
  }
  return where;
}

/// Whether another worker of the shared set will soon look at it: it is awake, and neither in a
/// long task nor likely to begin one. If all who sleep waited in the set, the kernel would wake one
/// for each request that comes while others are at work, though those would take it with their next
/// batch: measured, with clients on the same processors, .4 context switches a request instead of
/// .05, and half as much CPU again. The last one to park finds nobody, and waits in the set.
bool worker::watched_by_others() const noexcept {
  if (!shared_) return false;
  const ticks fresh = now_ticks() - 2 * long_task_us * pool_.ticks_per_us;
  const unsigned groups = pool_.idle.words();
  for (unsigned i = word_; i < pool_.slots(); i += groups) {
    const worker& other = pool_.slot(i);
    if (i != index && other.turn_began() > fresh && other.long_share() <= long_share_max)
      return true;
  }
  return false;
}

/// Returns whether it took a wake's token (shared sets; elsewhere nobody asks).
bool worker::sleep(continuation_chain& sink) noexcept {
  end_turn();
  if (home == nullptr) {
    parker_.wait(own_timers_.wait_ms());
    own_timers_.advance(sink);
    return false;
  }
  bool token = false;
  if (!std::exchange(napped_in_vain_, false) && watched_by_others()) {
    counters_.nap.add(1);
    token = home->wait_aside(sink, nap_ms);
    napped_in_vain_ = sink.empty() && !token;  // no traffic: no naps
  } else {
    token = home->wait(sink);
  }
  counters_.polls.add(1);
  return token && home->take_token();
}

void worker::wake() noexcept {
  if (home == nullptr) {
    parker_.wake();
  } else {
    home->wake();
  }
}

void worker::drain(continuation_chain& sink) noexcept {
  continuation* work = nullptr;
  while (own_.get(work)) sink.append(*work);
  while (continuation* const later = yielded_.take_first()) sink.append(*later);
  own_timers_.expire_all(sink);
}

}  // namespace bwos
