// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>

#include <bwos/continuation.hpp>
#include <bwos/lane.hpp>
#include <bwos/options.hpp>
#include <bwos/statistics.hpp>
#include <bwos/waiter.hpp>

namespace bwos {

class pool_core;

/// Workers with a FIFO BWoS queue each (Wang et al., OSDI '23), reactors, an inject queue for other
/// threads, and randomized block stealing. Knows no Asio; <bwos/asio.hpp> puts an
/// asio::execution_context on top.
///
/// Order: continuations posted by one worker to itself start in that order as long as nobody steals
/// and the queue does not spill; nothing is promised across workers.
///
/// fork(): the child of a process with a pool has none of its workers. It may exec or _exit, make
/// pools of its own, and destroy this one, which then leaves everything as it is; the same goes for
/// what a task forks. In the child post(), attach() and join() end it with a message, and so does a
/// task that returns there. Streams, listeners and timers of the pool must not be touched.
class pool {
 public:
  /// Starts the workers. Throws std::invalid_argument (options::validate) or std::system_error
  /// (threads, descriptors).
  explicit pool(const options& settings = {});
  /// stop(), join(), then what never ran is discarded (continuation::disposition::discard). Inside
  /// one of its own workers it would wait for itself: a message, and the process ends. Every call
  /// of a member must have returned: what post() queued may have run while post() still wakes a
  /// worker. Where the workers of two pools post to each other, join both before either ends.
  ~pool();
  pool(const pool&) = delete;
  pool& operator=(const pool&) = delete;

  /// Queues `work`: into the own queue on a worker of this pool, else into the inject queue. Any
  /// thread. Never blocks on a full queue, never drops; after stop() or join() the work is kept for
  /// discarding, which the pool's end does.
  void post(continuation& work) noexcept;
  /// The same with a rule of its own instead of options::posts_wake.
  void post(continuation& work, wake_rule rule) noexcept;

  /// Queues `work` behind what the reactor has ready, and ends the running slice; on other threads
  /// as post(). For a continuation that has used its share of time.
  void yield(continuation& work) noexcept;

  /// Queues `work` in the pool's lane of long work, run oldest first by workers that find nothing
  /// else to do. Where its tasks mostly take longer than two of options::slice, at most max(1,
  /// workers - 1) workers are at it, so that short work finds one free, until its oldest has waited
  /// for an eighth of options::lane_age. What has waited for all of that is run before anything
  /// else. For work of 50 us and more: below that the way through the lane costs more than it
  /// saves. Any thread; allocates nothing. `place` belongs to the pool until `work` is invoked.
  void post_long(continuation& work, lane_entry& place) noexcept;

  /// Whether the calling thread is inside a worker of this pool.
  [[nodiscard]] bool running_here() const noexcept;

  /// The pool whose worker the calling thread is inside (the innermost, if it attached to several);
  /// null elsewhere.
  [[nodiscard]] static pool_core* here() noexcept;

  /// Work that join() must wait for though nothing of it is queued, such as a suspended coroutine.
  /// Any thread.
  void work_started() noexcept;
  void work_finished() noexcept;

  /// Makes the calling thread a worker until the pool is stopped, or joined and out of work. Throws
  /// std::length_error when options::attached_max threads are attached already.
  void attach();

  /// Workers leave after the continuation that they are running. Any thread, any number of times.
  void stop() noexcept;
  [[nodiscard]] bool stopped() const noexcept;

  /// Waits until all queued work has run and work_started() is balanced (at once after stop()),
  /// then ends the threads. A second call returns once the first has. Inside a worker of this pool,
  /// also one that has attached itself to another pool meanwhile, it would wait for itself: a
  /// message, and the process ends. Another pool may be joined there.
  void join();

  /// Whether this process is a child of fork() of the one that made the pool.
  [[nodiscard]] bool in_child() const noexcept;

  [[nodiscard]] unsigned workers() const noexcept;
  /// Whether some worker has nothing to do and may take what another one has queued (never with
  /// steal_kind::none). Cheap, and out of date soon: for a task to decide whether dividing its work
  /// pays. Any thread.
  [[nodiscard]] bool has_idle() const noexcept;
  [[nodiscard]] pool_statistics statistics() const;
  /// What worker 0 to workers() - 1 is in. Any thread: it costs the worker nothing, so that whoever
  /// wants to know of tasks that do not end may ask at any time.
  [[nodiscard]] worker_turn turn_of(unsigned worker) const noexcept;

  /// How long what is ready has waited until it runs: on a worker, what its own reactor had ready;
  /// elsewhere, and with reactor threads, the most of all reactors. `now` may be a little late. Any
  /// thread; costs two loads a reactor.
  /// Zero unless options::queue_age_interval is set.
  [[nodiscard]] std::chrono::milliseconds queue_age(
      std::chrono::steady_clock::time_point now) const noexcept;
  /// How long the oldest continuation in the lane has waited. Any thread.
  [[nodiscard]] std::chrono::microseconds lane_age() const noexcept;

  /// Awaitable: the coroutine goes on on a worker of this pool, through post().
  [[nodiscard]] auto schedule() noexcept {
    return handed_on([this](continuation& work) noexcept { post(work); });
  }
  /// Awaitable: the coroutine goes on behind what the reactor has ready, through yield().
  [[nodiscard]] auto yield() noexcept {
    return handed_on([this](continuation& work) noexcept { yield(work); });
  }
  /// Awaitable: the coroutine goes on when it is its turn in the lane, through post_long(). Until
  /// its next suspension it counts as long work. `since`: lane_entry::since.
  [[nodiscard]] auto lane(std::uint64_t since = 0) noexcept {
    return handed_on([this, place = lane_entry{.since = since}](
                         continuation& work) mutable noexcept { post_long(work, place); });
  }

  /// For the library's own I/O objects.
  [[nodiscard]] pool_core& core() noexcept { return *core_; }

 private:
  std::unique_ptr<pool_core> core_;
};

}  // namespace bwos
