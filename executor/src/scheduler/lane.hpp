// SPDX-License-Identifier: Apache-2.0
// Long work, apart from the rest: one FIFO for the pool, served by workers that have nothing else
// to do, by all but one of them at once. So short work always finds somebody, and long work waits
// behind its like. An entry that has waited longer than the age is served whatever else there is.
//
// ROLES  Any thread pushes. A worker takes an entry, runs it, and says that it is done.
//
// INVARIANTS
// L1  list_ and oldest_ change together, under the lock. Entries are taken in the order of pushes.
//       lane_test: serves_in_order
// L2  Below the cap an entry is like a task in the inject queue: pushed (seq_cst) before the pusher
//     looks for sleepers, looked for by a worker after it has announced its parking (seq_cst). At
//     the cap a worker may sleep on an entry: those who serve look again when they are done.
//       lane_test: every_entry_runs_once, a_push_from_outside_wakes
// L3  That an entry is of age is seen by each worker between two slices, and by the monitor
//     (scheduler/monitor.hpp), which wakes a sleeper for it. Who pushes sees to it that the
//     monitor is awake.
//       lane_test: an_entry_of_age_is_served_above_the_cap
#pragma once

#include <bwos/lane.hpp>
#include <mutex>

#include "base/atomic.hpp"
#include "base/cache_line.hpp"
#include "base/continuation_chain.hpp"
#include "base/mutex.hpp"
#include "base/ticks.hpp"

namespace bwos {

class alignas(cache_line) lane {
 public:
  /// `servers_max`: the cap. `age`: see above.
  lane(unsigned servers_max, ticks age) noexcept : servers_max_(servers_max), age_(age) {}

  void push(lane_entry& entry) noexcept {
    entry.next = nullptr;
    entry.since = now_ticks();
    const std::lock_guard guard(lock_);
    (first_ == nullptr ? first_ : last_->next) = &entry;
    last_ = &entry;
    ++depth_;
    publish();
  }

  struct taken {
    continuation* work = nullptr;  ///< Null: nothing for the caller.
    bool aged = false;
  };

  /// The oldest entry's work, if it is of age or, not `aged_only`, the cap lets the caller serve
  /// it. The caller says done() after it has run.
  taken take(bool aged_only) noexcept {
    const std::lock_guard guard(lock_);
    if (first_ == nullptr) return {};
    const bool aged = is_of_age(first_->since, now_ticks());
    // [lane.take.look] relaxed: servers come under the lock; one that leaves meanwhile looks again
    // itself. Partner: [lane.done].
    const unsigned others = servers_.load(std::memory_order_relaxed);
    if (!aged && (aged_only || others >= servers_max_)) return {};
    // [lane.serve] seq_cst: one order with the looks of [lane.servers] (L2). Partner:
    // [lane.servers].
    servers_.fetch_add(1, std::memory_order_seq_cst);
    return {.work = pop(), .aged = aged};
  }

  /// The caller has run what it took, and looks at the lane again before it sleeps.
  void done() noexcept {
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
  /// An entry waits that the cap lets somebody serve. In that same look.
  [[nodiscard]] bool open() const noexcept { return nonempty() && below_cap(); }
  /// open(), cheap and possibly stale: for a busy worker, which looks again before every task.
  [[nodiscard]] bool glance() const noexcept {
    // [lane.glance] relaxed: a hint; see above. Partner: none, nothing is read on its strength.
    const ticks oldest = oldest_.load(std::memory_order_relaxed);
    // [lane.glance.servers] relaxed: the same hint's other half. Partner: none, as
    // [lane.glance].
    return oldest != 0 && servers_.load(std::memory_order_relaxed) < servers_max_;
  }
  /// The oldest entry is of age; possibly stale: looked at between any two slices.
  [[nodiscard]] bool has_aged() const noexcept {
    // [lane.age] relaxed: a hint, take() decides. Partner: none, nothing is read on its strength.
    const ticks oldest = oldest_.load(std::memory_order_relaxed);
    return oldest != 0 && is_of_age(oldest, now_ticks());
  }

  /// How long the oldest entry has waited; 0: there is none.
  [[nodiscard]] ticks age() const noexcept {
    // [lane.how_old] relaxed: a measure of what changes all the time. Partner: none, as [lane.age].
    const ticks oldest = oldest_.load(std::memory_order_relaxed);
    const ticks now = now_ticks();
    return oldest == 0 || now <= oldest ? 0 : now - oldest;
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
  [[nodiscard]] bool is_of_age(ticks since, ticks now) const noexcept {
    // Signed: another processor's counter may run a little ahead.
    return static_cast<std::int64_t>(now - since) >= static_cast<std::int64_t>(age_);
  }
  [[nodiscard]] bool below_cap() const noexcept {
    // [lane.servers] seq_cst: a worker that is going to sleep, or to let one sleep, is ordered with
    // those who come and go (L2). Partner: [lane.serve], [lane.done].
    return servers_.load(std::memory_order_seq_cst) < servers_max_;
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
  const ticks age_;
  mutable mutex lock_;
  lane_entry* first_ = nullptr;
  lane_entry* last_ = nullptr;
  std::size_t depth_ = 0;
  // Apart from the lock: read by everybody all the time.
  alignas(cache_line) atomic<ticks> oldest_{0};  // when it came; 0: there is none
  atomic<unsigned> servers_{0};
};

}  // namespace bwos
