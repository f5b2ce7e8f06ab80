// SPDX-License-Identifier: Apache-2.0
// Long work, apart from the rest: one queue for the pool, served by workers that have nothing else
// to do.
//
// ORDER  Oldest first, by when the work began to wait. That may have been before it came here: the
// requests of a connection come one after the other, however long they have been there.
//
// THE CAP  Where its tasks take longer than two slices, all workers but one serve it at once, so
// that short work always finds somebody. Shorter ones delay short work little more than a slice
// does: there a cap protects nobody, and idle workers would let the lane wait. (Tasks of 200 us
// beside HTTP requests, two workers, three quarters of the processors' time: with the cap the fast
// ones' p99 is 2 times what it is without, and the slow ones' 3 times.)
//
// AGE  An entry that has waited for an eighth of the age is served above the cap by a worker with
// nothing else to do; one of the whole age by any worker between two slices, whatever else there
// is.
//
// ROLES  Any thread pushes. A worker takes an entry, runs it, and says that it is done.
//
// INVARIANTS
// L1  list_ and oldest_ change together, under the lock. Entries are taken in the order of `since`,
//     but that one is not looked for behind more than overtaken_max others.
//       lane_test: serves_in_order, what_has_waited_longer_comes_first
// L2  Where there is room an entry is like a task in the inject queue: pushed (seq_cst) before the
//     pusher looks for sleepers, looked for by a worker after it has announced its parking
//     (seq_cst). At the cap a worker may sleep on an entry: those who serve look again when they
//     are done, and after they have voted on the cap.
//       lane_test: every_entry_runs_once, a_push_from_outside_wakes
// L3  That an entry is of age is seen by each worker between two slices; that it may be served
//     above the cap, by a worker with nothing else to do and by the monitor
//     (scheduler/monitor.hpp), which wakes a sleeper for it. Who pushes sees to it that the monitor
//     is awake.
//       lane_test: an_entry_of_age_is_served_above_the_cap
#pragma once

#include <algorithm>
#include <bwos/lane.hpp>
#include <mutex>

#include <bwos/base/atomic.hpp>
#include <bwos/base/cache_line.hpp>
#include "base/continuation_chain.hpp"
#include "base/mutex.hpp"
#include "base/relaxed_value.hpp"
#include "base/ticks.hpp"

namespace bwos {

class alignas(cache_line) lane {
 public:
  /// `servers_max`: the cap, for tasks that take longer than two of `slice`. `age`: see above.
  lane(unsigned servers_max, ticks slice, ticks age) noexcept
      : servers_max_(servers_max), slice_(slice), age_(age) {}

  void push(lane_entry& entry) noexcept {
    if (entry.since == 0) entry.since = now_ticks();
    const std::lock_guard guard(lock_);
    lane_entry** const at = place_of(entry.since);
    entry.next = *at;
    *at = &entry;
    if (entry.next == nullptr) last_ = &entry;
    ++depth_;
    publish();
  }

  struct taken {
    continuation* work = nullptr;  ///< Null: nothing for the caller.
    bool aged = false;             ///< The caller may have it for its age alone.
  };

  /// The oldest entry's work, if it is of age or, not `aged_only`, the caller has nothing else to
  /// do and may serve it. The caller says done() after it has run.
  taken take(bool aged_only) noexcept {
    const std::lock_guard guard(lock_);
    if (first_ == nullptr) return {};
    const ticks waited = waited_since(first_->since);
    // [lane.take.look] relaxed: servers come under the lock; one that leaves meanwhile looks again
    // itself. Partner: [lane.done].
    const bool room = has_room(servers_.load(std::memory_order_relaxed));
    const bool aged = waited >= age_ || (!room && waited >= patience());
    if (aged_only ? waited < age_ : !room && !aged) return {};
    // [lane.serve] seq_cst: one order with the looks of [lane.servers] (L2). Partner:
    // [lane.servers].
    servers_.fetch_add(1, std::memory_order_seq_cst);
    return {.work = pop(), .aged = aged};
  }

  /// The caller has run what it took, for `length`, and looks at the lane again before it sleeps.
  void done(ticks length) noexcept {
    vote(length > 2 * slice_);
    // [lane.done] seq_cst: whoever finds the cap reached after this counts others (L2). Partner:
    // [lane.servers].
    servers_.fetch_sub(1, std::memory_order_seq_cst);
  }

  /// Whether anything waits. In the last look before sleeping.
  [[nodiscard]] bool nonempty() const noexcept {
    // [lane.look] seq_cst: may not be taken before the announcement of parking that precedes it
    // (L2). Partner: [lane.publish].
    return oldest_.load(std::memory_order_seq_cst) != 0;
  }
  /// A worker with nothing else to do may serve the next entry, of whatever age.
  [[nodiscard]] bool has_room() const noexcept {
    // [lane.servers] seq_cst: a worker that is going to sleep, or to let one sleep, is ordered with
    // those who come and go (L2). Partner: [lane.serve], [lane.done].
    return has_room(servers_.load(std::memory_order_seq_cst));
  }
  /// An entry waits that such a worker may serve. In that same look.
  [[nodiscard]] bool open() const noexcept {
    return nonempty() && (has_room() || age() >= patience());
  }
  /// open(), cheap and possibly stale: for a busy worker, which looks again before every task.
  [[nodiscard]] bool glance() const noexcept {
    // [lane.glance] relaxed: a hint; see above. Partner: none, nothing is read on its strength.
    const ticks oldest = oldest_.load(std::memory_order_relaxed);
    if (oldest == 0) return false;
    // [lane.glance.servers] relaxed: the same hint's other half. Partner: none, as [lane.glance].
    return has_room(servers_.load(std::memory_order_relaxed)) || waited_since(oldest) >= patience();
  }
  /// The oldest entry is of age; possibly stale: looked at between any two slices.
  [[nodiscard]] bool has_aged() const noexcept { return age() >= age_; }

  /// How long the oldest entry has waited; 0: there is none.
  [[nodiscard]] ticks age() const noexcept {
    // [lane.age] relaxed: a measure of what changes all the time; take() decides. Partner: none,
    // nothing is read on its strength.
    const ticks oldest = oldest_.load(std::memory_order_relaxed);
    return oldest == 0 ? 0 : waited_since(oldest);
  }

  /// For statistics: right at some moment.
  [[nodiscard]] std::size_t depth() const noexcept {
    const std::lock_guard guard(lock_);
    return depth_;
  }

  /// When the pool ends: everything that waits here, to be discarded.
  void drain(continuation_chain& sink) noexcept {
    const std::lock_guard guard(lock_);
    while (first_ != nullptr) sink.append(*pop());
  }

 private:
  /// Who is older than the last entry is put before those that are younger; it looks for its place,
  /// from the oldest on, behind no more than so many: they are other connections, and the lock is
  /// held.
  static constexpr unsigned overtaken_max = 64;
  /// Votes of tasks, for and against the cap: enough that a few odd ones, or a preempted worker, do
  /// not change the majority of recent ones.
  static constexpr int votes_max = 8;

  /// Until somebody with nothing else to do serves an entry above the cap.
  [[nodiscard]] ticks patience() const noexcept { return age_ / 8; }
  [[nodiscard]] static ticks waited_since(ticks since) noexcept {
    const ticks now = now_ticks();
    return now > since ? now - since : 0;  // another processor's counter may run a little ahead
  }
  [[nodiscard]] bool has_room(unsigned servers) const noexcept {
    return servers < servers_max_ || long_votes_.get() <= 0;
  }
  /// Under the lock.
  lane_entry** place_of(ticks since) noexcept {
    if (first_ == nullptr) return &first_;
    if (last_->since > since) {
      lane_entry** at = &first_;
      for (unsigned passed = 0; passed < overtaken_max; ++passed) {
        if ((*at)->since > since) return at;  // the last one's is
        at = &(*at)->next;
      }
    }
    return &last_->next;
  }
  /// A task has taken long, or not.
  void vote(bool is_long) noexcept {
    const std::lock_guard guard(lock_);
    const int now = long_votes_.get() + (is_long ? 1 : -1);
    long_votes_.set(std::clamp(now, -votes_max, votes_max));
  }

  /// Under the lock. Its entry may be gone as soon as the work runs.
  continuation* pop() noexcept {
    lane_entry& taken = *first_;
    first_ = taken.next;
    --depth_;
    publish();
    return taken.work;
  }

  /// Under the lock.
  void publish() noexcept {
    // [lane.publish] seq_cst: may not come after the look for sleepers that follows a push.
    // Partner: [lane.look].
    oldest_.store(first_ == nullptr ? 0 : first_->since | 1, std::memory_order_seq_cst);
  }

  const unsigned servers_max_;
  const ticks slice_;
  const ticks age_;
  mutable mutex lock_;
  lane_entry* first_ = nullptr;
  lane_entry* last_ = nullptr;
  std::size_t depth_ = 0;
  // Apart from the lock: read by everybody all the time.
  alignas(cache_line) atomic<ticks> oldest_{0};  // when it came; 0: there is none
  atomic<unsigned> servers_{0};
  relaxed_value<int> long_votes_{1};  // the cap holds until tasks turn out to be short
};

}  // namespace bwos
