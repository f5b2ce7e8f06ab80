// SPDX-License-Identifier: Apache-2.0
#include "scheduler/search.hpp"

#include "scheduler/scheduler.hpp"
#include "scheduler/worker.hpp"

namespace bwos {

search::search(scheduler& all, unsigned index, unsigned word, worker_counters& counters)
    : all_(all),
      index_(index),
      word_(word),
      counters_(counters),
      policy_(all.settings, index, room, all.places.get()) {
  if (all.places != nullptr) all.places->put(index, current_cpu());
}

bool search::begin() noexcept {
  if (!all_.steals || all_.slots() == 1) return false;
  if (!on_) on_ = all_.idle.begin_search(word_);
  return on_;
}

bool search::end_it() noexcept {
  const bool last = std::exchange(on_, false) && all_.idle.end_search(word_);
  const bool owes = std::exchange(owes_look_, false);
  return (last || owes) && (all_.idle.may_claim() || all_.waits.may_claim());
}

std::span<continuation* const> search::steal() noexcept {
  const steal_outcome outcome = policy_.steal(
      index_, all_.slots(), [this](unsigned victim) { return all_.is_parked(victim); },
      [this](unsigned victim) { return all_.slot(victim).thief(); }, stolen_.data());
  counters_.steal_try.add(1);
  if (outcome.taken()) {
    counters_.steal_hit.add(1);
  } else if (!outcome.lost()) {
    counters_.steal_dry.add(1);
  }
  return taken_by(outcome);
}

std::span<continuation* const> search::steal(const sighting& where) noexcept {
  const worker_queue::thief blocks = all_.slot(where.victim).thief();
  const std::size_t most = policy_.amount().of(blocks.open_entries(where.block));
  steal_outcome outcome = steal_from_block(blocks, where.block, stolen_.data(), most);
  outcome.victim = where.victim;
  if (outcome.taken()) counters_.steal_sighted.add(1);
  const auto stolen = taken_by(outcome);
  if (where.more) gave_ = found::more;
  return stolen;
}

std::span<continuation* const> search::taken_by(const steal_outcome& outcome) noexcept {
  if (outcome.conflicts != 0) counters_.steal_conflict.add(outcome.conflicts);
  if (outcome.taken()) {
    counters_.steal_entries.add(outcome.count);
    const bool more = outcome.count > 1 || all_.slot(outcome.victim).thief().sample(outcome.block);
    gave_ = more ? found::more : found::one;
  }
  return {stolen_.data(), outcome.count};
}

search::sighting search::look() const noexcept {
  sighting seen;
  if (!all_.steals) return seen;
  const unsigned workers = all_.slots();
  unsigned victim = index_;
  for (unsigned i = 1; i < workers; ++i) {
    if (++victim == workers) victim = 0;
    if (all_.is_parked(victim)) continue;
    const worker_queue::thief blocks = all_.slot(victim).thief();
    const block_range range = blocks.in_use();
    for (std::size_t j = 0; j < range.count; ++j) {
      if (!blocks.sample(range[j])) continue;
      seen.more = seen.any;
      if (seen.more) return seen;
      seen.any = true;
      seen.victim = victim;
      seen.block = range[j];
    }
  }
  return seen;
}

}  // namespace bwos
