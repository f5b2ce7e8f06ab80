// SPDX-License-Identifier: Apache-2.0
// What waits in fork-join, and for how long; and what it is held to: a bare futex, and plain calls.
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <bwos/fork_join.hpp>
#include <bwos/parallel.hpp>
#include <bwos/pool.hpp>
#include <bwos/sync_wait.hpp>
#include <bwos/task_group.hpp>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <utility>

#include "bwos_beside.hpp"
#include "latency.hpp"
#include "side.hpp"

namespace bwos::bench {
namespace {

/// waiting: the task that others wait behind, and how many there are.
constexpr nanoseconds long_leaf = 20 * millisecond;
constexpr int waiting_count = 8;
/// Before a sleeper is woken.
constexpr nanoseconds sleep_length = 5 * millisecond;

pool& workers_here(unsigned count) {
  static pool here([count] {
    options how;
    how.workers = count;
    how.reactor = reactor_kind::none;
    how.pin = true;
    return how;
  }());
  return here;
}

/// On a worker: computes until the other one has slept for a while. Ends, as the pool is idle but
/// for the caller.
void let_other_sleep(const pool& on) {
  const auto sleeps = [&on] { return on.statistics().parked == on.workers() - 1; };
  do {
    while (!sleeps()) spin_for(100 * microsecond);
    spin_for(sleep_length);
  } while (!sleeps());
}

/// One sample of "waiting". The worker that forks is the owner, the other one is to come.
struct wait_for_other {
  explicit wait_for_other(bool other_parked) noexcept : parked(other_parked) {}

  const bool parked;                ///< The other one; else it ends a task that it has stolen.
  std::atomic<bool> busy{false};    ///< The other one has stolen that.
  std::atomic<bool> inside{false};  ///< The owner is in the leaf.
  nanoseconds entered = 0;
  first_begin first;

  /// What the other one is in until the leaf begins. Ends, as the owner waits for nobody then.
  void be_busy() noexcept {
    busy.store(true);
    while (!inside.load()) {
    }
  }
  /// Before the owner forks what shall wait. Ends, as what is forked is stolen by who is idle.
  void prepare(const pool& on) const {
    if (parked) let_other_sleep(on);
    while (!parked && !busy.load()) {
    }
  }
  void leaf() noexcept {
    entered = now();
    inside.store(true);
    spin_until(entered + long_leaf);
  }
  /// 0 where the other one was there before.
  [[nodiscard]] double us() const noexcept {
    return std::max(0.0, us_between(entered, first.at()));
  }
};

/// One sample of "wake".
struct wake_of_other {
  nanoseconds forked = 0;
  first_begin begun;

  /// What the forking worker does, so that the other one gets no help. Ends, as that one comes.
  void go_on_computing() const noexcept {
    while (!begun.noted()) {
    }
  }
  [[nodiscard]] double us() const noexcept { return us_between(forked, begun.at()); }
};

namespace coroutines {

fork_task<> spin(nanoseconds length) {
  spin_for(length);
  co_return;
}
fork_task<> note(first_begin& first) {
  first.note();
  co_return;
}

fork_task<double> leaves() {
  const nanoseconds begun = now();
  std::vector<fork_task<>> children;
  for (int i = 0; i < leaf_count; ++i) children.push_back(spin(leaf_length));
  co_await when_all(std::move(children));
  co_return us_since(begun);
}

/// Each level leaves one entry in the queue.
fork_task<> leaf_below(wait_for_other& here, int levels) {
  if (levels == 0) {
    here.leaf();
    co_return;
  }
  co_await fork_join(leaf_below(here, levels - 1), note(here.first));
}
fork_task<> owner(const pool& on, wait_for_other& here) {
  here.prepare(on);
  co_await leaf_below(here, waiting_count);
}
fork_task<> be_busy(wait_for_other& here) {
  here.be_busy();
  co_return;
}
fork_task<double> waiting(const pool& on, bool parked) {
  wait_for_other here(parked);
  if (parked) {
    co_await owner(on, here);
  } else {
    co_await fork_join(owner(on, here), be_busy(here));
  }
  co_return here.us();
}

fork_task<> burst_task(int number) {
  compute(static_cast<std::uint64_t>(number), burst_rounds);
  co_return;
}
/// The clock runs while the frames are made, as it does for the other sides' tasks.
fork_task<double> burst() {
  const nanoseconds begun = now();
  std::vector<fork_task<>> children;
  children.reserve(burst_count);
  for (int i = 0; i < burst_count; ++i) children.push_back(burst_task(i));
  co_await when_all(std::move(children));
  co_return us_since(begun);
}

fork_task<> go_on_computing(const wake_of_other& here) {
  here.go_on_computing();
  co_return;
}
fork_task<double> wake(const pool& on) {
  let_other_sleep(on);
  wake_of_other here;
  fork_task<> mine = go_on_computing(here);
  fork_task<> other = note(here.begun);
  here.forked = now();
  co_await fork_join(std::move(mine), std::move(other));
  co_return here.us();
}

}  // namespace coroutines

namespace groups {

double leaves(pool& on) {
  const nanoseconds begun = now();
  task_group group(on);
  for (int i = 0; i < leaf_count; ++i) group.run([] { spin_for(leaf_length); });
  group.wait();
  return us_since(begun);
}

double waiting(pool& on, bool parked) {
  wait_for_other here(parked);
  task_group group(on);
  if (!parked) group.run([&here] { here.be_busy(); });
  here.prepare(on);
  for (int i = 0; i < waiting_count; ++i) group.run([&here] { here.first.note(); });
  here.leaf();
  group.wait();
  return here.us();
}

double burst(pool& on) {
  const nanoseconds begun = now();
  task_group group(on);
  for (int i = 0; i < burst_count; ++i) {
    group.run([i] { compute(static_cast<std::uint64_t>(i), burst_rounds); });
  }
  group.wait();
  return us_since(begun);
}

double wake(pool& on) {
  let_other_sleep(on);
  wake_of_other here;
  task_group group(on);
  here.forked = now();
  group.run([&here] { here.begun.note(); });
  here.go_on_computing();
  group.wait();
  return here.us();
}

}  // namespace groups

namespace loops {

double leaves(pool& on) {
  const nanoseconds begun = now();
  parallel_for(on, 0, leaf_count, [](int) { spin_for(leaf_length); }, {.grain = 1});
  return us_since(begun);
}

double burst(pool& on) {
  const nanoseconds begun = now();
  parallel_for(on, 0, burst_count,
               [](int i) { compute(static_cast<std::uint64_t>(i), burst_rounds); }, {.grain = 1});
  return us_since(begun);
}

}  // namespace loops

/// Nobody forks.
double burst_of_calls() {
  const nanoseconds begun = now();
  for (int i = 0; i < burst_count; ++i) compute(static_cast<std::uint64_t>(i), burst_rounds);
  return us_since(begun);
}

/// From one thread, which goes on computing, to another that sleeps in FUTEX_WAIT.
class futex_hand_off {
 public:
  futex_hand_off() : sleeper_([this] { be_woken(); }) {}
  futex_hand_off(const futex_hand_off&) = delete;
  futex_hand_off& operator=(const futex_hand_off&) = delete;
  ~futex_hand_off() {
    over_.store(true);
    set_and_wake();
    sleeper_.join();
  }

  double wake() {
    pin_here(0);
    // Ends, as the other thread has nothing to do but to come here again.
    while (!waits_.exchange(false)) {
    }
    spin_for(sleep_length);
    const nanoseconds begun = now();
    set_and_wake();
    nanoseconds came = 0;
    while (came == 0) came = came_.exchange(0);  // ends: it has been woken
    return us_between(begun, came);
  }

 private:
  void set_and_wake() noexcept {
    word_.store(1);
    ::syscall(SYS_futex, &word_, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
  }
  void be_woken() noexcept {
    pin_here(1);
    while (!over_.load()) {
      waits_.store(true);
      while (word_.load() == 0) {
        ::syscall(SYS_futex, &word_, FUTEX_WAIT_PRIVATE, 0, nullptr, nullptr, 0);
      }
      word_.store(0);
      came_.store(now());
    }
  }

  static_assert(sizeof(std::atomic<std::uint32_t>) == sizeof(std::uint32_t));
  std::atomic<std::uint32_t> word_{0};
  std::atomic<bool> waits_{false};
  std::atomic<bool> over_{false};
  std::atomic<nanoseconds> came_{0};
  std::thread sleeper_;
};

template <class Take>
sampled_case from_outside(const char* name, Take take) {
  return {name, [=](std::size_t n) { return take_samples(n, take); }};
}

/// Each sample is a task of its own.
template <class Root>
sampled_case on_workers(const char* name, unsigned workers, Root root) {
  return from_outside(
      name, [=] { return sync_wait(workers_here(workers), root(workers_here(workers))); });
}
/// The same once all have slept.
template <class Root>
sampled_case once_asleep(const char* name, unsigned workers, Root root) {
  return from_outside(name, [=] {
    sleep_for_time(burst_pause);
    return sync_wait(workers_here(workers), root(workers_here(workers)));
  });
}

/// As a function of no arguments, for sync_wait.
template <class Function, class... Argument>
auto call_of(Function function, Argument... arguments) {
  return [=](pool& on) { return [=, &on] { return function(on, arguments...); }; };
}

flavour of_coroutines(unsigned workers) {
  using namespace coroutines;
  return {"coroutines",
          {},
          {once_asleep("leaves", workers, [](pool&) { return leaves(); }),
           on_workers("waiting", workers, [](pool& on) { return waiting(on, false); }),
           on_workers("waiting_parked", workers, [](pool& on) { return waiting(on, true); }),
           once_asleep("burst", workers, [](pool&) { return burst(); }),
           on_workers("wake", workers, [](pool& on) { return wake(on); })}};
}

flavour of_groups(unsigned workers) {
  using namespace groups;
  return {
      "task_group",
      {},
      {once_asleep("leaves", workers, call_of(leaves)),
       on_workers("waiting", workers, call_of(waiting, false)),
       on_workers("waiting_parked", workers, call_of(waiting, true)),
       once_asleep("burst", workers, call_of(burst)), on_workers("wake", workers, call_of(wake))}};
}

flavour of_loops(unsigned workers) {
  using namespace loops;
  return {"parallel_for",
          {},
          {once_asleep("leaves", workers, call_of(leaves)),
           once_asleep("burst", workers, call_of(burst))}};
}

}  // namespace

std::vector<flavour> start_side(unsigned workers) {
  if (workers < 2) {
    std::fprintf(stderr, "nobody waits for another one of %u workers\n", workers);
    std::exit(2);
  }
  std::vector<flavour> all{of_coroutines(workers),
                           of_groups(workers),
                           of_loops(workers),
                           {"calls", {}, {from_outside("burst", [] { return burst_of_calls(); })}},
                           {"futex", {}, {{"wake", [](std::size_t n) {
                                             futex_hand_off between;
                                             return take_samples(n, [&] { return between.wake(); });
                                           }}}}};
  for (flavour& each : beside_flavours(workers)) all.push_back(std::move(each));
  return all;
}

}  // namespace bwos::bench
