// SPDX-License-Identifier: Apache-2.0
// How a worker sleeps: in its reactor, aside of a shared one that others look after, or on a futex.
//
// ROLES  The worker sleeps. Any thread wakes it, after claiming it in the idle word.
// Test: parking_test.cpp, pool_test.cpp
#pragma once

#include "base/continuation_chain.hpp"
#include "base/futex_parker.hpp"
#include "io/reactor.hpp"
#include "scheduler/counters.hpp"

namespace bwos {

class scheduler;

class sleeper {
 public:
  /// `home`: the worker's reactor; null: a futex. `in_group`: it is shared.
  sleeper(scheduler& all, unsigned index, unsigned word, reactor* home, bool in_group,
          worker_counters& counters) noexcept
      : all_(all),
        index_(index),
        word_(word),
        home_(home),
        in_group_(in_group),
        counters_(counters) {}

  /// Until something is ready, which goes into `ready`, or a wake. The worker has announced that it
  /// parks and has looked everywhere. Returns whether it took a wake's token (shared reactors;
  /// elsewhere nobody asks).
  bool sleep(continuation_chain& ready) noexcept;
  /// Any thread.
  void wake() noexcept;

 private:
  [[nodiscard]] bool is_watched() const noexcept;

  scheduler& all_;
  const unsigned index_;
  const unsigned word_;
  reactor* const home_;
  const bool in_group_;
  worker_counters& counters_;
  futex_parker parker_;
  bool napped_in_vain_ = false;  // the last nap ended with nothing to do
};

}  // namespace bwos
