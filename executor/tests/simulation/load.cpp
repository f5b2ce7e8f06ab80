// SPDX-License-Identifier: Apache-2.0
#include "load.hpp"

#include <utility>

#include "cases.hpp"

namespace bwos::simulation {

load::load(simulated_pool& pool, const mix& parts)
    : pool_(pool), random_(pool.book.here.random), mix_(parts) {
  if (pool.has_reactors()) plan_bursts();
  for (unsigned i = 0; i < mix_.posters; ++i) start_poster(i);
}

nanoseconds load::between(nanoseconds least, nanoseconds most) noexcept {
  return least + random_.next() % (most - least + 1);
}

/// More often short than long.
nanoseconds load::gap(nanoseconds most) noexcept {
  return random_.below(2) == 0 ? between(0, 300) : between(0, most);
}

nanoseconds load::length() noexcept {
  return one_in(mix_.long_one_in) ? between(mix_.long_min, mix_.long_max)
                                  : between(mix_.short_min, mix_.short_max);
}

task& load::plan(unsigned depth) {
  task& planned = pool_.book.plan();
  const bool forks = depth != 0 && one_in(mix_.forks_one_in);
  const bool forks_first = random_.below(2) == 0;
  if (forks && forks_first) plan_children(planned, depth);
  planned.plan.push_back({.what = action::kind::compute, .span = length()});
  if (forks && !forks_first) {
    plan_children(planned, depth);
    planned.plan.push_back({.what = action::kind::compute, .span = length()});
  }
  const bool yields = one_in(mix_.yields_one_in);
  if (yields || one_in(mix_.sleeps_one_in)) {
    const nanoseconds span = between(10 * microsecond, 3 * millisecond);
    planned.plan.push_back(yields ? action{.what = action::kind::yield}
                                  : action{.what = action::kind::sleep, .span = span});
    planned.plan.push_back({.what = action::kind::compute, .span = length()});
  }
  return planned;
}

void load::plan_children(task& parent, unsigned depth) {
  const unsigned count =
      mix_.children_min + random_.below(mix_.children_max - mix_.children_min + 1);
  if (pool_.book.tasks().size() + count > mix_.tasks_max) return;
  for (unsigned i = 0; i < count; ++i) {
    const bool laned = one_in(mix_.laned_one_in);
    task& child = plan(depth - 1);
    parent.plan.push_back(
        {.what = laned ? action::kind::post_long : action::kind::post, .child = &child});
  }
}

void load::plan_bursts() {
  nanoseconds when = pool_.book.here.now();
  for (unsigned i = 0; i < mix_.bursts; ++i) {
    when += gap(mix_.burst_gap_max);
    const unsigned to = random_.below(pool_.form.workers);
    const unsigned size = 1 + random_.below(mix_.burst_max);
    const nanoseconds spread = random_.below(2) == 0 ? 0 : 20 * microsecond;
    for (unsigned j = 0; j < size && pool_.book.tasks().size() < mix_.tasks_max; ++j) {
      pool_.arrive(to, when + between(0, spread), plan(mix_.depth));
    }
  }
}

void load::start_poster(unsigned index) {
  std::vector<std::pair<nanoseconds, task*>> posts;
  const unsigned count = 1 + random_.below(mix_.posts_max);
  for (unsigned i = 0; i < count && pool_.book.tasks().size() < mix_.tasks_max; ++i) {
    posts.emplace_back(gap(mix_.post_gap_max), &plan(mix_.depth));
  }
  pool_.book.here.start(text("poster ", index), [this, posts] {
    for (const auto& [wait, work] : posts) {
      pool_.book.here.compute(wait);
      if (one_in(mix_.laned_posts_one_in)) {
        pool_.book.post_long(*work);
      } else {
        pool_.book.post(*work);
      }
    }
  });
}

}  // namespace bwos::simulation
