// SPDX-License-Identifier: Apache-2.0
#include "simulated_pool.hpp"

#include "cases.hpp"

namespace bwos::simulation {
namespace {

std::vector<reactor*> pointers_to(const std::vector<std::unique_ptr<simulated_reactor>>& all) {
  std::vector<reactor*> result;
  for (const auto& each : all) result.push_back(each.get());
  return result;
}

}  // namespace

options simulated_pool::options_of(const shape& wanted) {
  options result;
  result.workers = wanted.workers;
  result.reactor_group = wanted.group;
  result.steal = wanted.steal;
  result.steal_blocks = wanted.steal_blocks;
  result.steal_takes = wanted.steal_takes;
  result.receive_bytes = 1024;  // nobody receives
  return result;
}

std::vector<std::unique_ptr<simulated_reactor>> simulated_pool::groups_of(machine& here,
                                                                          const shape& wanted) {
  std::vector<std::unique_ptr<simulated_reactor>> result;
  if (wanted.how != waits::in_groups) return result;
  const unsigned groups = (wanted.workers + wanted.group - 1) / wanted.group;
  for (unsigned i = 0; i < groups; ++i)
    result.push_back(std::make_unique<simulated_reactor>(here, true));
  return result;
}

simulated_pool::simulated_pool(machine& here, const shape& wanted)
    : form(wanted),
      settings_(options_of(wanted)),
      reactors_(groups_of(here, wanted)),
      all(settings_, pointers_to(reactors_)),
      book(here, all, wanted.workers),
      here_(here) {
  for (unsigned i = 0; i < wanted.workers; ++i) {
    reactor* home = all.assignment_of(i).home;
    if (wanted.how == waits::by_itself) {
      reactors_.push_back(std::make_unique<simulated_reactor>(here, false));
      home = reactors_.back().get();
    }
    all.install(i, std::make_unique<worker>(all, i, nullptr, home, nullptr));
    threads_.push_back(&here.start(text("worker ", i), [this, i] { all.slot(i).run(); }));
  }
  all.publish(wanted.workers);
  if (wanted.workers > 1) here.start("monitor", [this] { all.watch.run(); });
  for (const auto& each : reactors_) {
    each->on_taken = [this](const continuation_chain& events) { book.taken_from_reactor(events); };
  }
}

void simulated_pool::run() {
  here_.run();
  continuation_chain rest;
  all.drain(rest);
  for (const auto& each : reactors_) each->drain(rest);
  while (continuation* const work = rest.take_first()) {
    work->invoke(*work, continuation::disposition::discard);
  }
}

void simulated_pool::arrive(unsigned worker, nanoseconds when, task& work) {
  work.where = task::place::ready;
  static_cast<simulated_reactor*>(all.slot(worker).home)->arrive(when, work);
}

bool simulated_pool::has_something_to_steal(unsigned worker) noexcept {
  // All blocks, whatever the range says that thieves look at.
  const worker_queue::thief blocks = all.slot(worker).thief();
  for (std::size_t block = 0; block < worker_queue::block_count; ++block) {
    if (blocks.sample(block)) return true;
  }
  return false;
}

}  // namespace bwos::simulation
