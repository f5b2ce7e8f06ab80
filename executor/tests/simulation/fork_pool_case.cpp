// SPDX-License-Identifier: Apache-2.0
// Fork-join on the shipped workers: everything forked runs once, every wait ends, events go on, and
// no worker sleeps for long while another hides work from it (scheduler/fork_worker.hpp).
#include <bwos/task_group.hpp>

#include "cases.hpp"
#include "simulated_pool.hpp"

namespace bwos::simulation {
namespace {

/// What all roots and leaves of a run share.
struct plan {
  simulated_pool& pool;
  machine& here;
  unsigned long_one_in;
  nanoseconds long_max;
  unsigned made = 0;
  unsigned ran = 0;
  unsigned roots_left = 0;
};

/// Leaves under invoke(), some of them long; each call counts itself.
struct counted_tree {
  plan& of;
  void operator()(unsigned depth) const {
    ++of.made;
    if (depth == 0) {
      const bool is_long = of.here.random.below(of.long_one_in) == 0;
      const auto span = static_cast<std::uint32_t>(is_long ? of.long_max : 400);
      of.here.compute(of.here.random.below(span));
    } else {
      const unsigned other = of.here.random.below(depth);
      invoke([this, depth] { (*this)(depth - 1); }, [this, other] { (*this)(other); });
    }
    ++of.ran;
  }
};

struct root final : continuation {
  root(plan& its, unsigned its_depth) : continuation(&run_it), of(its), depth(its_depth) {}
  plan& of;
  unsigned depth;
  unsigned runs = 0;

 private:
  static void run_it(continuation& self, disposition how) noexcept {
    auto& mine = static_cast<root&>(self);
    if (how != disposition::run) return;
    ++mine.runs;
    counted_tree{mine.of}(mine.depth);
    --mine.of.roots_left;
  }
};

/// Somebody hides or offers an entry, and somebody sleeps who could take it.
bool is_wasting(scheduler& all) {
  if (all.idle.parked() == 0 && all.waits.parked() == 0) return false;
  for (unsigned i = 0; i < all.slots(); ++i) {
    const fork_worker::queue_type::thief thief = all.slot(i).forks().thief();
    if (all.slot(i).forks().in_use() && (thief.sample() || thief.hides())) return true;
  }
  return false;
}

void run(machine& here, const shape& form, unsigned roots, unsigned depth, nanoseconds long_max) {
  simulated_pool pool(here, form);
  plan of{pool, here, 2 + here.random.below(10), long_max};
  std::vector<std::unique_ptr<root>> all;
  for (unsigned i = 0; i < roots; ++i) {
    all.push_back(std::make_unique<root>(of, here.random.below(depth + 1)));
  }
  of.roots_left = roots;
  here.start("poster", [&] {
    for (const auto& each : all) {
      pool.all.post(*each);
      if (here.random.below(2) == 0) here.compute(here.random.below(200'000));
    }
  });
  here.start("watcher", [&] {
    unsigned wasted = 0;
    while (of.roots_left != 0) {
      here.compute(1 * millisecond);
      const bool wasting = here.between_steps([&] { return is_wasting(pool.all); });
      wasted = wasting ? wasted + 1 : 0;
      expect(wasted < 40, "work_conserving", "for 40 ms a worker sleeps while another hides work");
    }
    for (unsigned i = 0; !pool.all.quiescent(); ++i) {
      expect(i < 100, "quiescent", "all tasks have run, and the pool does not say so");
      here.compute(500'000);
    }
    pool.all.stop();
  });
  pool.run();
  for (const auto& each : all) expect(each->runs == 1, "once", "a root ran ", each->runs, " times");
  expect(of.made == of.ran, "once", of.made, " were forked or called, ", of.ran, " have ended");
}

shape any_shape(random_source& random) {
  constexpr waits all[] = {waits::in_groups, waits::by_itself, waits::on_a_futex};
  shape result;
  result.workers = 1 + random.below(4);
  result.how = all[random.below(3)];
  result.group = random.below(4) == 0 ? 2 : 4;
  return result;
}

void forks(machine& here) {
  run(here, any_shape(here.random), 1 + here.random.below(6), 6, 300 * microsecond);
}
/// Little is forked, and what has been waits under long leaves.
void long_leaves(machine& here) {
  shape form = any_shape(here.random);
  form.workers = 2 + here.random.below(2);
  run(here, form, 1 + here.random.below(2), 3, 100 * millisecond);
}

const registered cases_of_forks[] = {
    {"pool_forks", "trees of invoke() on any pool", &forks},
    {"pool_long_forks", "the same, of few long leaves", &long_leaves},
};

}  // namespace
}  // namespace bwos::simulation
