// SPDX-License-Identifier: Apache-2.0
// The worker's loop, in pools of one to four: every task runs once, the pool stops when told, and
// who sleeps is woken for what deserves it.
#include "cases.hpp"
#include "checks.hpp"
#include "load.hpp"
#include "simulated_pool.hpp"

namespace bwos::simulation {
namespace {

/// The thread that waits for the pool to finish and stops it; or, `early`, before it has finished.
void start_driver(simulated_pool& pool, bool early) {
  machine& here = pool.book.here;
  here.start("driver", [&pool, &here, early] {
    if (early) here.compute(here.random.below(5'000'000));
    const std::uint32_t pause = here.random.below(4) == 0 ? 5'000 : 2'000'000;
    while (!early && pool.book.unfinished() != 0) {
      const nanoseconds before = here.now();
      const bool over = pool.all.quiescent();
      expect(!over || pool.book.idle_last() >= before, "quiescent",
             "the pool says that it has nothing to do, and has");
      here.wait(&pool.book, here.now() + here.random.below(pause), "waits for the tasks");
    }
    for (unsigned i = 0; !early && !pool.all.quiescent(); ++i) {
      expect(i < 100, "quiescent", "all tasks have run, and the pool does not say so");
      here.compute(here.random.below(500'000));
    }
    pool.all.stop();
  });
}

void run(simulated_pool& pool, const mix& parts, bool early) {
  const load all(pool, parts);
  start_driver(pool, early);
  pool.run();
  pool.book.check_all(early);
}

/// All but topology, which goes by the CPU that the real thread is on.
void steal_in_any_way(shape& of, random_source& random) {
  constexpr steal_kind kinds[] = {steal_kind::random, steal_kind::sequential,
                                  steal_kind::last_victim, steal_kind::best_of_two,
                                  steal_kind::best_of_many};
  constexpr steal_amount amounts[] = {steal_amount::batch, steal_amount::one, steal_amount::half,
                                      steal_amount::block};
  of.steal = kinds[random.below(5)];
  of.steal_blocks = random.below(2) == 0 ? steal_choice::in_use : steal_choice::probabilistic;
  of.steal_takes = amounts[random.below(4)];
}

shape any_shape(random_source& random) {
  constexpr waits all[] = {waits::in_groups, waits::by_itself, waits::on_a_futex};
  shape result;
  result.workers = 1 + random.below(4);
  result.how = all[random.below(3)];
  result.group = random.below(4) == 0 ? 2 : 4;
  const std::uint32_t way = random.below(8);
  if (way == 0) result.steal = steal_kind::none;
  if (way > 4) steal_in_any_way(result, random);
  return result;
}

mix any_mix(random_source& random) {
  constexpr unsigned often[] = {0, 3, 10, 30};
  const auto draw = [&] { return often[random.below(4)]; };
  mix result;
  result.tasks_max = 50 + random.below(250);
  result.bursts = random.below(6);
  result.burst_max = 1 + random.below(random.below(2) == 0 ? 8 : 200);
  result.burst_gap_max = random.below(2) == 0 ? 20 * microsecond : 2 * millisecond;
  result.posters = (result.bursts == 0 ? 1 : 0) + random.below(3);
  result.posts_max = 1 + random.below(30);
  result.post_gap_max = random.below(2) == 0 ? 5 * microsecond : 500 * microsecond;
  result.laned_posts_one_in = draw();
  result.long_one_in = draw();
  result.forks_one_in = draw();
  result.laned_one_in = draw();
  result.yields_one_in = draw();
  result.sleeps_one_in = draw();
  return result;
}

void anything(machine& here) {
  simulated_pool pool(here, any_shape(here.random));
  const checks all(pool);
  run(pool, any_mix(here.random), here.random.below(8) == 0);
}

/// Two workers, so that a backlog that nobody was woken for is the fault of its own worker: the
/// other one sleeps, and has looked before.
void batches_of_two(machine& here) {
  simulated_pool pool(here, {.workers = 2, .how = waits::in_groups});
  const checks all(pool);
  mix parts;
  parts.bursts = 12;
  parts.burst_max = 40;
  parts.burst_gap_max = 400 * microsecond;
  parts.short_min = 4 * microsecond;
  parts.long_one_in = 12;
  run(pool, parts, false);
}

/// Three workers and more: one has posted and was excused by another that searches, while a third
/// sleeps.
void posts_beside_a_searcher(machine& here) {
  const waits how = here.random.below(2) == 0 ? waits::in_groups : waits::by_itself;
  simulated_pool pool(here, {.workers = 3 + here.random.below(2), .how = how});
  const checks all(pool);
  mix parts;
  parts.bursts = 40;
  parts.burst_max = 3;
  parts.burst_gap_max = 100 * microsecond;
  parts.long_one_in = 4;
  parts.long_max = 1 * millisecond;
  parts.forks_one_in = 3;
  parts.children_min = 2;
  run(pool, parts, false);
}

/// The same where workers share two sets.
void posts_beside_another_group(machine& here) {
  simulated_pool pool(here,
                      {.workers = 3 + here.random.below(2), .how = waits::in_groups, .group = 2});
  const checks all(pool);
  mix parts;
  parts.bursts = 20;
  parts.burst_max = 3;
  parts.burst_gap_max = 400 * microsecond;
  parts.long_one_in = 4;
  parts.forks_one_in = 3;
  parts.children_min = 2;
  run(pool, parts, false);
}

/// Little to do, so that the monitor sleeps; and long tasks that have each left something behind.
void a_little_now_and_then(machine& here) {
  shape form = any_shape(here.random);
  form.workers = 2 + here.random.below(2);
  form.steal = steal_kind::random;
  simulated_pool pool(here, form);
  const checks all(pool);
  mix parts;
  parts.tasks_max = 40;
  parts.bursts = 5;
  parts.burst_max = 2;
  parts.burst_gap_max = 40 * millisecond;
  parts.posters = 1;
  parts.posts_max = 5;
  parts.post_gap_max = 40 * millisecond;
  parts.long_one_in = 2;
  parts.long_max = 12 * millisecond;
  parts.forks_one_in = 2;
  parts.children_max = 1;
  parts.laned_posts_one_in = 3;
  parts.laned_one_in = 4;
  run(pool, parts, false);
}

void batches_of_one(machine& here) {
  simulated_pool pool(here, {.workers = 1, .how = waits::in_groups});
  checks all(pool);
  all.expect_batches();
  mix parts;
  parts.tasks_max = 500;
  parts.bursts = 8;
  parts.burst_max = 200;
  parts.burst_gap_max = 300 * microsecond;
  constexpr unsigned often[] = {0, 30, 2};
  parts.long_one_in = often[here.random.below(3)];
  run(pool, parts, false);
}

const registered any("pool", "pools of all kinds under loads of all kinds", &anything);
const registered batches("pool_batches", "a search is no excuse for its own worker's backlog",
                         &batches_of_two);
const registered posts("pool_posts", "who was excused by a searcher is not let down by it",
                       &posts_beside_a_searcher);
const registered groups("pool_groups", "nor by one of its group while another group sleeps",
                        &posts_beside_another_group);
const registered seldom("pool_seldom", "the monitor that has slept finds what deserves no wake-up",
                        &a_little_now_and_then);
const registered polls("pool_polls", "a worker polls for what its queue lacks", &batches_of_one);

}  // namespace
}  // namespace bwos::simulation
