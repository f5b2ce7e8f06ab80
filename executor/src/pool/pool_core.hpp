// SPDX-License-Identifier: Apache-2.0
// What the workers of a pool share.
#pragma once

#include <atomic>
#include <bwos/options.hpp>
#include <bwos/statistics.hpp>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/check.hpp"
#include "base/ticks.hpp"
#include "lane/lane.hpp"
#include "park/idle_set.hpp"
#include "pool/fork.hpp"
#include "pool/monitor_thread.hpp"
#include "pool/worker.hpp"
#include "queue/inject_queue.hpp"
#include "reactor/factory.hpp"
#include "reactor/io_host.hpp"
#include "reactor/reactor.hpp"
#include "reactor/reactor_threads.hpp"

namespace bwos {

class pool_core final : public io_host {
 public:
  /// `settings` have been validated.
  explicit pool_core(const options& settings);
  ~pool_core();
  pool_core(const pool_core&) = delete;
  pool_core& operator=(const pool_core&) = delete;

  void start();  // the threads
  void post(continuation& work) noexcept override;
  void deliver(continuation_chain ready) noexcept override;
  void yield(continuation& work) noexcept;
  void post_long(lane_entry& entry) noexcept;
  void attach();
  void stop() noexcept;
  void join();
  void work_started() noexcept override;
  void work_finished() noexcept override;
  [[nodiscard]] pool_statistics statistics() const;
  [[nodiscard]] worker_turn turn_of(unsigned index) const noexcept;
  [[nodiscard]] std::chrono::milliseconds queue_age(
      std::chrono::steady_clock::time_point now) const noexcept;
  [[nodiscard]] std::chrono::microseconds lane_age() const noexcept;

  /// Whether this process is a child of fork() of the pool's.
  [[nodiscard]] bool in_child() const noexcept { return fork_generation != born_generation_; }
  /// In the child, before it has a second thread: the worker that forked shall run nothing more.
  void give_up() noexcept;

  // For workers and I/O objects.

  /// Ends a child of fork() whose only thread has come back into a worker's loop.
  void stay_in_parent() const noexcept {
    detail::refuse(in_child(),
                   "a task has returned in a child of fork(), which must end in exec or _exit");
  }

  [[nodiscard]] bool stopping() const noexcept {
    // [pool.stopping] seq_cst: part of the look before parking; a plain load where it is cheap.
    // Partner: [pool.stop].
    return stopping_.load(std::memory_order_seq_cst);
  }
  /// Wakes one sleeper, if any and nobody searches; `first`: the word to look at first. After
  /// publishing work.
  bool wake_one(unsigned first) noexcept;
  /// A worker is about to sleep, or something that join() waits for has ended.
  void note_progress() noexcept;
  [[nodiscard]] unsigned slots() const noexcept {
    // [pool.slots.read] acquire: the workers up to it are complete. Partner: [pool.slots.publish].
    return slot_count_.load(std::memory_order_acquire);
  }
  [[nodiscard]] bool all_parked() const noexcept { return idle.parked() == slots(); }
  [[nodiscard]] worker& slot(unsigned index) noexcept { return *slots_[index]; }

  const options settings;
  const ticks ticks_per_us;
  inject_queue inject;
  lane long_work;
  idle_set idle;
  monitor_thread monitor;

 private:
  pool_core(const options& settings, reactor_choice choice);
  worker& add_worker();
  void wake_all() noexcept;
  [[nodiscard]] bool quiescent() const noexcept;
  void discard_all() noexcept;
  [[nodiscard]] std::uint64_t departures() const noexcept;

  const std::chrono::steady_clock::time_point born_ = std::chrono::steady_clock::now();
  const ticks born_ticks_ = now_ticks();
  const unsigned born_generation_ = fork_generation;
  const reactor_choice choice_;
  const unsigned groups_;  // shared epoll sets; 0: none are shared
  std::vector<std::unique_ptr<reactor>> reactors_;
  reactor_threads dedicated_{*this};

  std::mutex slots_lock_;
  std::vector<std::unique_ptr<worker>> slots_;  // reserved at start: never moves
  std::atomic<unsigned> slot_count_{0};
  std::atomic<bool> stopping_{false};
  std::atomic<std::int64_t> outstanding_{0};

  std::mutex join_lock_;
  std::condition_variable join_signal_;
  std::uint64_t progress_ = 0;
  unsigned attached_inside_ = 0;
  std::atomic<bool> joining_{false};
  std::mutex threads_lock_;
  std::vector<std::thread> threads_;
};

}  // namespace bwos
