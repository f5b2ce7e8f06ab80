// SPDX-License-Identifier: Apache-2.0
#include "loads.hpp"

#include <algorithm>
#include <bwos/task_group.hpp>
#include <cmath>
#include <deque>
#include <iostream>
#include <memory>

#include "measure.hpp"
#include "scheduler/worker_queue.hpp"

namespace bwos::simulation {
namespace {

/// The time of all workers that they were not idle, until now.
picoseconds busy_time(const simulated_pool& pool) {
  picoseconds sum = 0;
  for (unsigned i = 0; i < pool.form.workers; ++i) {
    sum += pool.thread_of(i).time - pool.thread_of(i).waited;
  }
  return sum;
}

// Posted tasks, as in post_cases.hpp, which are told by their numbers what they post.

struct successors {
  std::size_t first;
  std::size_t last;
};

/// What `posted` shares with its tasks.
struct posted_load {
  std::size_t count;
  std::size_t from_outside = 1;
  nanoseconds each_computes = 0;
  successors (*of)(posted_load& all, std::size_t task) = nullptr;
  std::vector<unsigned> ended = {};  // fan: of each round
  machine* here = nullptr;
  scheduler* pool = nullptr;
  std::size_t left = 0;
};

successors tree(posted_load& all, std::size_t task) {
  return {2 * task + 1, std::min(2 * task + 3, all.count)};
}
successors chain(posted_load& all, std::size_t task) {
  return {task + 1, std::min(task + 2, all.count)};
}
successors nothing(posted_load& /*all*/, std::size_t /*task*/) {
  return {0, 0};
}
constexpr std::size_t fan_width = 64;
successors fan(posted_load& all, std::size_t task) {
  const std::size_t round = task / (fan_width + 1);
  if (task % (fan_width + 1) == 0) return {task + 1, task + 1 + fan_width};
  touch(&all.ended[round], access::change);
  if (++all.ended[round] < fan_width) return {0, 0};
  const std::size_t next = (round + 1) * (fan_width + 1);
  return {next, std::min(next + 1, all.count)};
}

posted_load posted_load_of(const std::string& name) {
  const std::size_t tasks = std::size_t{1} << (bench::is_quick() ? 14 : 20);
  if (name == "tree") return {.count = tasks, .of = &tree};
  if (name == "chain") return {.count = tasks, .of = &chain};
  if (name == "burst") {
    return {.count = 1'000, .from_outside = 1'000, .each_computes = microsecond, .of = &nothing};
  }
  const std::size_t rounds = tasks / (fan_width + 1);
  return {.count = rounds * (fan_width + 1), .of = &fan, .ended = std::vector<unsigned>(rounds)};
}

struct alignas(64) posted_task : continuation {
  posted_task(posted_load& its, std::vector<posted_task*>& others, std::size_t number)
      : continuation(&run_it), of(its), all(others), index(number) {}
  void post() {
    touch(this, access::store);
    of.pool->post(*this);
  }

  posted_load& of;
  std::vector<posted_task*>& all;
  const std::size_t index;

 private:
  static void run_it(continuation& self, disposition how) noexcept {
    if (how != disposition::run) return;
    auto& mine = static_cast<posted_task&>(self);
    posted_load& load = mine.of;
    touch(&self, access::load);
    load.here->spend(load.here->takes.run);
    if (load.each_computes != 0) load.here->compute(load.each_computes);
    const auto [first, last] = load.of(load, mine.index);
    for (std::size_t i = first; i < last; ++i) mine.all[i]->post();
    if (--load.left == 0) load.here->wake(&load);
  }
};

outcome run_posted(simulated_pool& pool, machine& here, const std::string& name) {
  posted_load load = posted_load_of(name);
  load.here = &here;
  load.pool = &pool.all;
  load.left = load.count;
  std::deque<posted_task> tasks;
  std::vector<posted_task*> all;
  for (std::size_t i = 0; i < load.count; ++i) all.push_back(&tasks.emplace_back(load, all, i));
  outcome found{.tasks = load.count};
  here.start("poster", [&] {
    here.wait(&found, here.now() + 5 * millisecond, "until all sleep");
    const nanoseconds began = here.now();
    const picoseconds busy = busy_time(pool);
    for (std::size_t i = 0; i < load.from_outside; ++i) all[i]->post();
    if (load.left != 0) here.wait(&load, never, "for the last task");
    found.took = here.now() - began;
    found.busy = busy_time(pool) - busy;
    pool.all.stop();
  });
  pool.run();
  return found;
}

// Forks.

std::uint64_t fib_calls(unsigned n) {
  return n < 2 ? 1 : 1 + fib_calls(n - 1) + fib_calls(n - 2);
}

struct fork_tree {
  machine& here;
  std::uint64_t operator()(unsigned n) const {
    here.spend(here.takes.fork);
    if (n < 2) return n;
    std::uint64_t one = 0;
    std::uint64_t other = 0;
    invoke([&] { one = (*this)(n - 1); }, [&] { other = (*this)(n - 2); });
    return one + other;
  }
};

struct fork_root : continuation {
  fork_root(machine& on, unsigned its_n) : continuation(&run_it), here(on), n(its_n) {}
  machine& here;
  const unsigned n;
  std::uint64_t sum = 0;
  nanoseconds took = 0;
  bool done = false;

 private:
  static void run_it(continuation& self, disposition how) noexcept {
    if (how != disposition::run) return;
    auto& mine = static_cast<fork_root&>(self);
    const nanoseconds began = mine.here.now();
    mine.sum = fork_tree{mine.here}(mine.n);
    mine.took = mine.here.now() - began;
    mine.done = true;
    mine.here.wake(&self);
  }
};

outcome run_forks(simulated_pool& pool, machine& here, unsigned n) {
  fork_root root(here, n);
  outcome found{.tasks = fib_calls(n)};
  here.start("poster", [&] {
    here.wait(&found, here.now() + 5 * millisecond, "until all sleep");
    const nanoseconds began = here.now();
    const picoseconds busy = busy_time(pool);
    pool.all.post(root);
    if (!root.done) here.wait(static_cast<continuation*>(&root), never, "for the root");
    found.took = here.now() - began;
    found.busy = busy_time(pool) - busy;
    found.answer = root.sum;
    found.within = root.took;
    pool.all.stop();
  });
  pool.run();
  return found;
}

// Requests.

nanoseconds warm_up() {
  return (bench::is_quick() ? 1 : 5) * millisecond;
}
/// As many requests, however many workers; but for those who see only a few each.
nanoseconds measured(unsigned workers) {
  if (bench::is_quick()) return 1 * millisecond;
  return std::max(5 * millisecond, 20 * millisecond * 64 / std::max(64U, workers));
}
constexpr nanoseconds round_trip = 50 * microsecond;  // closed: from an answer to the next request
unsigned connections(unsigned workers) {              // closed
  return (bench::is_quick() ? 1 : 16) * workers;
}

struct served_load;

/// A connection, where the load is closed.
struct alignas(64) request : continuation {
  request(served_load& its, std::uint64_t seed) : continuation(&run_it), of(its), random(seed) {}
  served_load& of;
  random_source random;  // of its own, so that all pools of a seed get the same requests
  unsigned home = 0;
  nanoseconds arrived = 0;
  nanoseconds computes = 0;

 private:
  static void run_it(continuation& self, disposition how) noexcept;
};

struct served_load {
  served_load(simulated_pool& on, machine& its, const load_settings& given, std::uint64_t seed)
      : pool(on), here(its), wanted(given), closed(given.name == "closed"), random(seed) {
    begins = here.now() + warm_up();
    ends = begins + measured(pool.form.workers);
    here.at(begins, [this] { found.busy = busy_time(pool); });
    here.at(ends, [this] { found.busy = busy_time(pool) - found.busy; });
    found.took = ends - begins;
  }

  simulated_pool& pool;
  machine& here;
  const load_settings& wanted;
  const bool closed;
  random_source random;  // open: of when requests arrive
  nanoseconds begins;
  nanoseconds ends;
  std::deque<request> requests;
  std::size_t under_way = 0;
  bool over = false;  // nothing more arrives
  outcome found;

  static double exponential(random_source& from, double mean) {
    const double even = (from.below(1U << 24) + 1) / static_cast<double>(1U << 24);
    return -mean * std::log(even);
  }
  static constexpr double short_ns = 5'000;
  static constexpr unsigned long_one_in = 250;
  static constexpr nanoseconds long_ns = 500 * microsecond;
  [[nodiscard]] double mean_ns() const {
    return wanted.how_long == lengths::even ? short_ns : short_ns + long_ns / double{long_one_in};
  }
  [[nodiscard]] nanoseconds length(random_source& from) const {
    const bool is_long = wanted.how_long == lengths::mixed && from.below(long_one_in) == 0;
    return is_long ? long_ns : static_cast<nanoseconds>(exponential(from, short_ns));
  }
  [[nodiscard]] unsigned any_home(random_source& from) const {
    const unsigned workers = pool.form.workers;
    const bool skewed = from.below(100) < wanted.skew;
    return from.below(skewed ? std::max(1U, workers / 8) : workers);
  }

  void arrive(request& what, nanoseconds when) {
    ++under_way;
    what.arrived = when;
    what.computes = length(what.random);
    static_cast<simulated_reactor*>(pool.all.slot(what.home).home)->arrive(when, what);
  }
  void connect_all() {
    for (unsigned i = 0; i < connections(pool.form.workers); ++i) {
      request& made = requests.emplace_back(*this, random.next());
      made.home = any_home(random);
      arrive(made, here.now() + random.below(round_trip));
    }
  }
  void arrive_at_random(double when) {
    const auto moment = static_cast<nanoseconds>(when);
    if (moment >= ends) return finish();
    here.at(moment, [this, when, moment] {
      request& next = requests.emplace_back(*this, random.next());
      next.home = any_home(random);
      arrive(next, moment);
      const double gap = mean_ns() / pool.form.workers / (wanted.busy / 100.0);
      arrive_at_random(when + exponential(random, gap));
    });
  }
  void ended(request& what) {
    const nanoseconds now = here.now();
    --under_way;
    if (now >= begins && now < ends) ++found.tasks;
    if (what.arrived >= begins && what.arrived < ends)
      found.waited.push_back(static_cast<double>(now - what.arrived) / microsecond);
    if (closed && now + round_trip < ends) return arrive(what, now + round_trip);
    if (closed || over) finish();
  }
  void finish() {
    over = true;
    if (under_way == 0) here.wake(this);
  }
};

void request::run_it(continuation& self, disposition how) noexcept {
  if (how != disposition::run) return;
  auto& mine = static_cast<request&>(self);
  touch(&self, access::change);
  mine.of.here.spend(mine.of.here.takes.run);
  mine.of.here.compute(mine.computes);
  mine.of.ended(mine);
}

outcome run_served(simulated_pool& pool, machine& here, const load_settings& wanted) {
  for (const auto& each : pool.reactors()) each->on_taken = nullptr;  // no tasks of a ledger
  served_load load(pool, here, wanted, here.random.next());
  if (load.closed) {
    load.connect_all();
  } else {
    load.arrive_at_random(static_cast<double>(here.now() + 1));
  }
  here.start("watcher", [&] {
    here.wait(&load, never, "for the last request");
    if (here.now() < load.ends) here.wait(&load.ends, load.ends + 1, "for the end");
    pool.all.stop();
  });
  pool.run();
  return std::move(load.found);
}

/// Accesses of a put and a get.
double accesses_of_a_pair(const costs& of) {
  machine here(1, of);
  constexpr unsigned pairs = 10'000;
  here.start("owner", [] {
    const auto queue = std::make_unique<worker_queue>();
    worker_queue::owner& owner = queue->as_owner();
    continuation* some = nullptr;
    for (unsigned i = 0; i < pairs; ++i) {
      static_cast<void>(owner.put(nullptr));
      static_cast<void>(owner.get(some));
    }
  });
  here.run();
  return static_cast<double>(here.steps()) / pairs;
}

/// ns that a task has to take beyond its accesses; `measured`: with them, on one worker.
double beyond_accesses(const costs& of, const char* load, double measured) {
  machine here(1, of);
  simulated_pool pool(here, {.workers = 1, .how = waits::on_a_futex});
  const outcome found = run_load(pool, here, {.name = load});
  const nanoseconds took = found.within != 0 ? found.within : found.took;
  const double accesses = static_cast<double>(took) / static_cast<double>(found.tasks);
  if (accesses > measured) {
    std::cerr << "pool_simulation: accesses alone take a task of " << load << ' ' << accesses
              << " ns, all of it was measured as " << measured << '\n';
  }
  return std::max(0.0, measured - accesses);
}

}  // namespace

costs calibrated(costs of) {
  of.hit = of.pair / accesses_of_a_pair(of);
  of.run = beyond_accesses(of, "chain", of.chain);
  of.fork = beyond_accesses(of, "fib", of.fib);
  return of;
}

const std::vector<std::string>& load_names() {
  static const std::vector<std::string> all{"tree", "chain", "fan",   "burst",
                                            "fib",  "open",  "closed"};
  return all;
}

bool is_served(const std::string& load) {
  return load == "open" || load == "closed";
}

outcome run_load(simulated_pool& pool, machine& here, const load_settings& wanted) {
  if (is_served(wanted.name)) return run_served(pool, here, wanted);
  return wanted.name == "fib" ? run_forks(pool, here, wanted.fib_of)
                              : run_posted(pool, here, wanted.name);
}

}  // namespace bwos::simulation
