// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>

namespace bwos {

/// Where a pool's descriptors are polled.
enum class reactor_kind : std::uint8_t {
  none,       ///< No descriptors: workers park on futexes. What bwos::thread_pool uses by default.
  automatic,  ///< epoll, whose readiness idle workers can share; statistics().reactor_note says why
              ///< not io_uring.
  epoll,
  io_uring,  ///< A ring per worker; falls back to epoll where the kernel refuses it (reactor_note
             ///< names the errno).
};

/// Which victims an idle worker tries, in which order: eight that are awake in one attempt, and all
/// before it sleeps. With two workers there is no choice. The policies are those of Wang et al.,
/// "BWoS", OSDI '23, section 6.2.3; lengths are those of queues, in blocks of 64 tasks. Owners of
/// queues run the same instructions whichever is chosen.
enum class steal_kind : std::uint8_t {
  random,        ///< From a random one on.
  none,          ///< Nobody steals: thread per core, the baseline of the benchmarks.
  sequential,    ///< From the next one on, always in the same order.
  last_victim,   ///< The one that gave something last, then from a random one on.
  best_of_two,   ///< The longer of two random ones, the other, then from a random one on.
  best_of_many,  ///< Half of the others, at most eight, the longest first, then as above.
  /// SMT siblings, then who shares the last level of cache, then the NUMA node, then the rest; of
  /// each kind from a random one on. By what sysfs says at the pool's start, and by the CPU on
  /// which each worker starts: for pools that are pinned (options::pin). Where sysfs says nothing,
  /// all are alike.
  topology,
};

/// Which block of its victim a thief takes from.
enum class steal_choice : std::uint8_t {
  in_use,  ///< Of the blocks in use, up to four from a random one on, the first that has something.
  /// One random block of all, used or not, or else the next victim, 64 times at most (OSDI '23,
  /// section 3.4): long queues are stolen from in proportion to their length, and a queue of a few
  /// tasks is seldom hit. What is missed is found by the look at everything before a worker sleeps.
  probabilistic,
};

/// How much one steal takes, of one block: the oldest of it, and never more than it has, or than
/// steal_batch_max.
enum class steal_amount : std::uint8_t {
  batch,  ///< options::steal_batch tasks.
  one,
  half,   ///< Half of what the block has to steal, rounded up.
  block,  ///< All that it has to steal, up to 64 tasks.
};

/// Their names, as in "best-of-two"; "?" for a value that is none of them.
const char* name_of(steal_kind which) noexcept;
const char* name_of(steal_choice which) noexcept;
const char* name_of(steal_amount which) noexcept;

/// CPUs of this thread's affinity mask, capped by the cgroup's cpu.max (rounded up); at least 1.
unsigned default_workers() noexcept;

/// When a task that posts wakes a sleeping worker for it.
enum class wake_rule : std::uint8_t {
  /// When that pays: the poster has posted before, or has work behind it, or its tasks take longer
  /// than a wake-up costs (30 us on average). Everybody's default. A single task that short ones
  /// post runs next on their worker; should that stay in a long one, it starts elsewhere within two
  /// milliseconds, or seven after many short ones.
  earned,
  /// Always: for coarse tasks among short ones, whose start matters more than the processor time of
  /// a wake-up (about 5 us).
  at_once,
};

/// Every tunable and limit of a pool, with unit, default and range.
struct options {
  static constexpr unsigned workers_max = 1024;
  static constexpr unsigned steal_batch_max = 64;
  static constexpr unsigned reactor_threads_max = 64;
  static constexpr unsigned attached_max = 32;  ///< Threads inside pool::attach() at once.

  /// Threads. 0 to 1024; 0 leaves all running to threads that call attach().
  unsigned workers = default_workers();
  /// Workers that share one epoll set, 1 (private sets) to 1024. io_uring takes 1 only. Measured
  /// with 8 and 16 workers, to the CPU and the p99 of sets of 1: with 8 in a set short requests
  /// beside long ones wait .04 and .12 times as long, a saturated server needs 1.2 and .9 times the
  /// CPU (loadtest/results/README.md).
  unsigned reactor_group = 8;
  reactor_kind reactor = reactor_kind::none;
  /// Dedicated reactor threads, each with an epoll set or ring of its own, that wait for
  /// descriptors and hand what is ready to the workers, which then park on futexes. 0 to 64; 0: the
  /// workers wait themselves, by groups. Without a reactor it must be 0.
  unsigned reactor_threads = 0;
  steal_kind steal = steal_kind::random;
  steal_choice steal_blocks = steal_choice::in_use;
  steal_amount steal_takes = steal_amount::batch;
  /// For posts from inside a worker that do not say so themselves. Posts from other threads always
  /// wake a sleeper, if nobody searches.
  wake_rule posts_wake = wake_rule::earned;
  /// Pin worker i to the i-th CPU of the affinity mask, modulo their number. Right when the machine
  /// is the pool's alone. Where the kernel refuses, pool's constructor throws std::system_error.
  bool pin = false;
  /// Entries taken by one steal of a batch, 1 to 64 (measured: 4 to 64 alike); and at least so many
  /// from the inject queue, whatever a steal takes.
  unsigned steal_batch = 16;
  /// Waits for forked work (invoke, task_group::wait) that steal, on top of each other on one
  /// worker's stack at most, 1 to 1024. In the last of them forks run at once, as calls. A guess.
  unsigned wait_depth = 64;
  /// Tasks run from the local queue between two looks at inject queue and reactor, 1 to 65536. One
  /// poll's worth: fewer would leave a rest of each batch, and a loaded worker's queue never dry.
  unsigned slice_tasks = 64;
  /// Time after which such a run ends all the same, in microseconds, 1 to 1,000,000. Measured with
  /// HTTP requests of 4.5 us, two workers: 50 us end a batch of 64 events early and cost 2 to 7 %
  /// more CPU at 256 and 1000 connections, and are no better for the p99 beside requests of 200 us.
  std::chrono::microseconds slice{300};
  /// Long work (pool::lane) that has waited longer is run whatever else there is, in microseconds,
  /// 1 to 10,000,000. After an eighth of it no worker is kept free of the lane any more. Measured
  /// with requests of 200 us that fill two workers to 85 %: of 2, 4, 6 and 8 ms each takes the p99
  /// of the short ones down, from .7 of an asio::io_context's to .3, and that of the long ones up,
  /// from 1.5 times its to 2.4.
  std::chrono::microseconds lane_age{6000};
  /// How often each reactor measures pool::queue_age, in milliseconds, 0 to 10,000; 0: it does not.
  /// Each time wakes a worker.
  std::chrono::milliseconds queue_age_interval{0};
  /// epoll, and io_uring where its buffers are used up: bytes that one receive takes from a socket
  /// at most, into the buffer that each worker has for it, 1 KiB to 1 MiB. What comes in one piece
  /// need not be gathered (loadtest/plans/bodies.toml).
  std::size_t receive_bytes = 128 * 1024;
  /// io_uring: bytes of a provided buffer, which one receive fills at most, 1 KiB to 1 MiB.
  std::size_t ring_buffer_bytes = 16 * 1024;
  /// io_uring: provided buffers of a ring, a power of two, 2 to 32768.
  unsigned ring_buffers = 256;
  /// io_uring: submission entries of a ring, a power of two, 8 to 32768.
  unsigned ring_entries = 1024;

  /// Throws std::invalid_argument naming the option, its value and the valid range.
  void validate() const;
};

}  // namespace bwos
