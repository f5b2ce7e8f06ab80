// SPDX-License-Identifier: Apache-2.0
// Question: what do short events wait for on a pool whose workers are all busy with long handlers,
// and what does it cost these, where they fork and where they do not?
// Expected: events wait for a slice and the monitor's next look where handlers fork, and for half a
// handler where they call, or where no slice ends.
//
// As many handlers as there are workers are at it at any time, each a tree of leaves of some 5 us,
// 5 ms in all, on a coroutine that gives way to events when it has ended. Events are due each
// millisecond, however late others are (open loop): coroutines that have gone to sleep before
// (sleep_until), or posts of a thread that does nothing else.
#include "bwos_beside.hpp"

#include <sys/prctl.h>

#include <atomic>
#include <bwos/continuation.hpp>
#include <bwos/fork_join.hpp>
#include <bwos/pool.hpp>
#include <bwos/timer.hpp>
#include <chrono>
#include <latch>
#include <string>
#include <utility>

#include "latency.hpp"

namespace bwos::bench {
namespace {

constexpr unsigned tree_levels = 10;
constexpr unsigned tree_leaf_rounds = 1'600;
constexpr nanoseconds event_interval = millisecond;
/// Until all events sleep and all handlers run.
constexpr nanoseconds lead = 50 * millisecond;

enum class handlers : std::uint8_t { none, call, fork };

struct plan {
  unsigned workers;
  handlers what;
  bool slices;  ///< Else none ends while a handler runs.
  reactor_kind reactor;
  bool timers;  ///< Else posts.
};

fork_task<std::uint64_t> forked_tree(unsigned levels, std::uint64_t seed) {
  if (levels == 0) co_return compute(seed, tree_leaf_rounds);
  auto [a, b] =
      co_await fork_join(forked_tree(levels - 1, 2 * seed), forked_tree(levels - 1, 2 * seed + 1));
  co_return a ^ b;
}

std::uint64_t called_tree(unsigned levels, std::uint64_t seed) {
  if (levels == 0) return compute(seed, tree_leaf_rounds);
  return called_tree(levels - 1, 2 * seed) ^ called_tree(levels - 1, 2 * seed + 1);
}

/// One handler after the other.
task<> handle(pool& on, handlers what, const std::atomic<bool>& over, std::vector<double>& us) {
  while (!over.load()) {
    const nanoseconds begun = now();
    if (what == handlers::fork) {
      co_await forked_tree(tree_levels, 1);
    } else {
      called_tree(tree_levels, 1);
    }
    us.push_back(us_since(begun));
    co_await on.yield();
  }
}

/// What is due at a time of its own.
struct event : continuation {
  event() noexcept : continuation(&posted) {}

  void happen() noexcept {
    happened = now();
    left->count_down();
  }
  static void posted(continuation& self, disposition how) noexcept {
    if (how == disposition::run) static_cast<event&>(self).happen();
  }

  nanoseconds due = 0;
  nanoseconds left_poster = 0;
  nanoseconds happened = 0;
  std::latch* left = nullptr;
};

task<> sleep_until_due(event& each) {
  co_await sleep_until(sleep_until::clock::time_point(std::chrono::nanoseconds(each.due)));
  each.happen();
}

/// Its lateness is that of this thread, which needs a processor, too.
void post_when_due(pool& on, std::vector<event>& events) {
  ::prctl(PR_SET_TIMERSLACK, 1UL);
  for (event& each : events) {
    sleep_until_time(each.due);
    each.left_poster = now();
    on.post(each);
  }
}

options options_of(const plan& how) {
  options result;
  result.workers = how.workers;
  result.reactor = how.reactor;
  result.pin = true;
  if (!how.slices) result.slice = std::chrono::seconds(1);
  return result;
}

std::vector<samples> events_beside(const plan& how, std::size_t count) {
  std::vector<samples> taken{{"", {}}, {"late_", {}}, {"slow_", {}}};  // events, poster, handlers
  std::vector<event> events(count);
  std::latch left(static_cast<std::ptrdiff_t>(count));
  std::vector<std::vector<double>> handled(how.workers);
  std::atomic<bool> over{false};
  pool on(options_of(how));
  // Timers are kept to the millisecond: none of them waits for the next one.
  nanoseconds due = (now() + lead) / millisecond * millisecond;
  for (event& each : events) {
    each.due = due += event_interval;
    each.left = &left;
    if (how.timers) spawn(on, sleep_until_due(each));
  }
  for (std::vector<double>& us : handled) {
    if (how.what != handlers::none) spawn(on, handle(on, how.what, over, us));
  }
  if (!how.timers) post_when_due(on, events);
  left.wait();
  over.store(true);
  on.join();
  for (const event& each : events) {
    taken[0].us.push_back(us_between(each.due, each.happened));
    if (!how.timers) taken[1].us.push_back(us_between(each.due, each.left_poster));
  }
  for (const std::vector<double>& us : handled) {
    taken[2].us.insert(taken[2].us.end(), us.begin(), us.end());
  }
  return taken;
}

sampled_case case_of(std::string name, const plan& how) {
  return {std::move(name), [how](std::size_t n) { return events_beside(how, n); }};
}

flavour flavour_of(std::string name, unsigned workers, handlers what, bool slices) {
  flavour result{std::move(name), {}, {}};
  for (const bool timers : {true, false}) {
    for (const reactor_kind reactor : {reactor_kind::epoll, reactor_kind::none}) {
      std::string from = timers ? "timer" : "post";
      from += reactor == reactor_kind::none ? "_none" : "_epoll";
      result.sampled.push_back(case_of(from, {.workers = workers,
                                              .what = what,
                                              .slices = slices,
                                              .reactor = reactor,
                                              .timers = timers}));
    }
  }
  return result;
}

}  // namespace

std::vector<flavour> beside_flavours(unsigned workers) {
  return {flavour_of("idle", workers, handlers::none, true),
          flavour_of("beside_calls", workers, handlers::call, true),
          flavour_of("beside_forks", workers, handlers::fork, true),
          flavour_of("beside_forks_unsliced", workers, handlers::fork, false)};
}

}  // namespace bwos::bench
