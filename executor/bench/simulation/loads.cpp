// SPDX-License-Identifier: Apache-2.0
#include "loads.hpp"

#include <algorithm>
#include <bwos/task_group.hpp>
#include <cmath>
#include <deque>
#include <memory>

#include "measure.hpp"
#include "scheduler/worker_queue.hpp"

namespace bwos::simulation {
namespace {

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
  nanoseconds took = 0;
  here.start("poster", [&] {
    here.wait(&took, here.now() + 5 * millisecond, "until all sleep");
    const nanoseconds began = here.now();
    for (std::size_t i = 0; i < load.from_outside; ++i) all[i]->post();
    if (load.left != 0) here.wait(&load, never, "for the last task");
    took = here.now() - began;
    pool.all.stop();
  });
  pool.run();
  return {.tasks = load.count, .took = took, .lasted = took, .waited = {}};
}

// Forks.

std::uint64_t fib_calls(unsigned n) {
  return n < 2 ? 1 : 1 + fib_calls(n - 1) + fib_calls(n - 2);
}

struct fork_tree {
  machine& here;
  void operator()(unsigned n) const {
    here.spend(here.takes.fork);
    if (n < 2) return;
    invoke([this, n] { (*this)(n - 1); }, [this, n] { (*this)(n - 2); });
  }
};

struct fork_root : continuation {
  fork_root(machine& on, unsigned its_n) : continuation(&run_it), here(on), n(its_n) {}
  machine& here;
  const unsigned n;
  bool done = false;

 private:
  static void run_it(continuation& self, disposition how) noexcept {
    if (how != disposition::run) return;
    auto& mine = static_cast<fork_root&>(self);
    fork_tree{mine.here}(mine.n);
    mine.done = true;
    mine.here.wake(&self);
  }
};

outcome run_forks(simulated_pool& pool, machine& here, unsigned n) {
  fork_root root(here, n);
  nanoseconds took = 0;
  here.start("poster", [&] {
    here.wait(&took, here.now() + 5 * millisecond, "until all sleep");
    const nanoseconds began = here.now();
    pool.all.post(root);
    if (!root.done) here.wait(static_cast<continuation*>(&root), never, "for the root");
    took = here.now() - began;
    pool.all.stop();
  });
  pool.run();
  const std::uint64_t calls = fib_calls(n);
  return {.tasks = calls, .took = took, .lasted = took, .waited = {}};
}

// Requests.

nanoseconds warm_up() {
  return (bench::is_quick() ? 1 : 3) * millisecond;
}
/// As many requests, however many workers; but for those who see only a few each.
nanoseconds measured(unsigned workers) {
  if (bench::is_quick()) return 1 * millisecond;
  return std::max(4 * millisecond, 20 * millisecond * 64 / std::max(64U, workers));
}
constexpr nanoseconds round_trip = 50 * microsecond;  // closed: from an answer to the next request
unsigned connections(unsigned workers) {              // closed
  return (bench::is_quick() ? 1 : 16) * workers;
}

struct served_load;

struct alignas(64) request : continuation {
  explicit request(served_load& its) : continuation(&run_it), of(its) {}
  served_load& of;
  unsigned home = 0;
  nanoseconds arrived = 0;

 private:
  static void run_it(continuation& self, disposition how) noexcept;
};

struct served_load {
  simulated_pool& pool;
  machine& here;
  const load_settings& wanted;
  bool closed;
  nanoseconds begins;
  nanoseconds ends;
  std::deque<request> requests = {};
  std::vector<request*> spare = {};
  std::size_t under_way = 0;
  bool over = false;
  outcome found = {};

  double even() { return (here.random.below(1U << 24) + 1) / static_cast<double>(1U << 24); }
  nanoseconds exponential(double mean) {
    return static_cast<nanoseconds>(-mean * std::log(even()));
  }
  static constexpr double short_ns = 5'000;
  static constexpr unsigned long_one_in = 250;
  static constexpr nanoseconds long_ns = 500 * microsecond;
  [[nodiscard]] double mean_ns() const {
    return wanted.how_long == lengths::even ? short_ns : short_ns + long_ns / double{long_one_in};
  }
  nanoseconds length() {
    const bool is_long = wanted.how_long == lengths::mixed && here.random.below(long_one_in) == 0;
    return is_long ? long_ns : exponential(short_ns);
  }
  unsigned any_home() {
    const unsigned workers = pool.form.workers;
    const bool skewed = here.random.below(100) < wanted.skew;
    return here.random.below(skewed ? std::max(1U, workers / 8) : workers);
  }

  void arrive(request& what, nanoseconds when) {
    ++under_way;
    what.arrived = when;
    static_cast<simulated_reactor*>(pool.all.slot(what.home).home)->arrive(when, what);
  }
  void arrive_at_random(nanoseconds when) {
    if (when >= ends) return finish();
    here.at(when, [this, when] {
      if (spare.empty()) spare.push_back(&requests.emplace_back(*this));
      request& next = *spare.back();
      spare.pop_back();
      next.home = any_home();
      arrive(next, when);
      const double gap = mean_ns() / pool.form.workers / (wanted.busy / 100.0);
      arrive_at_random(when + exponential(gap));
    });
  }
  void finish() {
    over = true;
    if (under_way == 0) here.wake(this);
  }
  void ended(request& what) {
    const nanoseconds now = here.now();
    --under_way;
    if (what.arrived >= begins && what.arrived < ends) {
      found.waited.push_back(now - what.arrived);
      found.took = now - begins;
    }
    if (closed && now + round_trip < ends) return arrive(what, now + round_trip);
    spare.push_back(&what);
    if (closed) over = true;
    if (over && under_way == 0) here.wake(this);
  }
};

void request::run_it(continuation& self, disposition how) noexcept {
  if (how != disposition::run) return;
  auto& mine = static_cast<request&>(self);
  touch(&self, access::change);
  mine.of.here.spend(mine.of.here.takes.run);
  mine.of.here.compute(mine.of.length());
  mine.of.ended(mine);
}

outcome run_served(simulated_pool& pool, machine& here, const load_settings& wanted) {
  for (const auto& each : pool.reactors()) each->on_taken = nullptr;  // no tasks of a ledger
  const nanoseconds begins = here.now() + warm_up();
  const nanoseconds lasts = measured(pool.form.workers);
  served_load load{.pool = pool,
                   .here = here,
                   .wanted = wanted,
                   .closed = wanted.name == "closed",
                   .begins = begins,
                   .ends = begins + lasts};
  if (load.closed) {
    for (unsigned i = 0; i < connections(pool.form.workers); ++i) {
      request& made = load.requests.emplace_back(load);
      made.home = load.any_home();
      load.arrive(made, here.now() + here.random.below(round_trip));
    }
  } else {
    load.arrive_at_random(here.now() + 1);
  }
  here.start("watcher", [&] {
    here.wait(&load, never, "for the last request");
    pool.all.stop();
  });
  pool.run();
  std::sort(load.found.waited.begin(), load.found.waited.end());
  load.found.tasks = load.found.waited.size();
  load.found.lasted = load.found.took + warm_up();
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

double task_with_one_worker(const costs& of, const char* load) {
  machine here(1, of);
  simulated_pool pool(here, {.workers = 1, .how = waits::on_a_futex});
  const outcome found = run_load(pool, here, {.name = load});
  return static_cast<double>(found.took) / static_cast<double>(found.tasks);
}

}  // namespace

costs calibrated(costs of) {
  of.hit = of.pair / accesses_of_a_pair(of);
  of.run = std::max(0.0, of.chain - task_with_one_worker(of, "chain"));
  of.fork = std::max(0.0, of.fib - task_with_one_worker(of, "fib"));
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
