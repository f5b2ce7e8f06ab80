// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include <bwos/options.hpp>

namespace bwos {

/// Counters of one worker since its start. Each is written by its worker alone; a snapshot reads
/// them relaxed, so that two of them may be apart by the work of a moment. BWOS_WORKER_COUNTERS(X)
/// lists them once: X(name, meaning).
#define BWOS_WORKER_COUNTERS(X)                                                    \
  X(run, "continuations run")                                                      \
  X(put, "continuations put into the own queue")                                   \
  X(get, "continuations taken from the own queue by its owner")                    \
  X(share, "blocks given back to thieves before a task")                           \
  X(steal_try, "searches of other workers' queues")                                \
  X(steal_hit, "searches that found work")                                         \
  X(steal_dry, "searches that saw nothing to take")                                \
  X(steal_sighted, "looks before parking that found work")                         \
  X(steal_conflict, "claims lost to another thief")                                \
  X(steal_entries, "continuations stolen")                                         \
  X(inject_get, "continuations taken from the inject queue")                       \
  X(spill, "continuations moved to the inject queue because the own one was full") \
  X(queue_full, "puts that found the own queue full")                              \
  X(lane_run, "continuations run from the lane of long work")                      \
  X(lane_aged, "of these, run when of age, or above the cap")                      \
  X(park, "times parked")                                                          \
  X(nap, "of these, for a moment, the shared reactor left to workers at work")     \
  X(wake, "wake-ups sent to others")                                               \
  X(spurious_wake, "times woken, or at the end of a nap, with nothing to do")      \
  X(polls, "reactor polls")                                                        \
  X(events, "continuations that polls delivered")                                  \
  X(timers, "deadlines that expired")                                              \
  X(fork_steal, "pieces of forked work stolen")                                    \
  X(fork_expose, "times that others' forked work was exposed to be stolen")        \
  X(fork_yield, "times that forked work gave way to other tasks")                  \
  X(fork_sleep, "sleeps of tasks that wait for forked work")                       \
  X(exceptions_dropped, "exceptions of forked work that nobody has seen")

struct worker_statistics {
#define BWOS_FIELD(name, meaning) std::uint64_t name = 0;
  BWOS_WORKER_COUNTERS(BWOS_FIELD)
#undef BWOS_FIELD
};

/// A worker's turn of its loop: a slice of tasks and a look at its reactor.
struct worker_turn {
  std::uint64_t began = 0;  ///< Tells it from the worker's others; 0: the worker is parked.
  std::chrono::microseconds age{0};  ///< Beyond options::slice: the time of the task at hand.
};

/// The reactor in use, and why.
struct reactor_choice {
  reactor_kind kind = reactor_kind::none;
  std::string note;      ///< In a sentence: what a log should say once at start.
  bool refused = false;  ///< io_uring was asked for and the kernel refused it: the note deserves a
                         ///< warning.
};

struct pool_statistics {
  std::vector<worker_statistics>
      workers;  ///< One per worker that ever started, attached threads last.
  /// By worker: continuations in its queue that others could steal a moment ago. The rest of the
  /// block that the owner is at is not among them.
  std::vector<std::uint64_t> stealable;
  std::uint64_t inject_depth = 0;             ///< Continuations in the inject queue now.
  std::uint64_t lane_depth = 0;               ///< Continuations in the lane now.
  std::uint64_t parked = 0;                   ///< Workers parked now.
  std::uint64_t searching = 0;                ///< Workers searching now.
  reactor_kind reactor = reactor_kind::none;  ///< The kind in use.
  std::string reactor_note;  ///< Why that one, in a sentence: what a log should say once at start.
  bool reactor_refused = false;  ///< io_uring was asked for and the kernel refused it: reactor_note
                                 ///< deserves a warning.
};

}  // namespace bwos
