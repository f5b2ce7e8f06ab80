// SPDX-License-Identifier: Apache-2.0
// A pool's threads and reactors, around the scheduler that its workers share.
#pragma once

#include <bwos/options.hpp>
#include <bwos/statistics.hpp>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "base/ticks.hpp"
#include "io/factory.hpp"
#include "io/io_host.hpp"
#include "io/reactor.hpp"
#include "io/reactor_threads.hpp"
#include "pool/pool_waits.hpp"
#include "scheduler/scheduler.hpp"
#include "scheduler/worker.hpp"

namespace bwos {

class pool_core final : public io_host {
 public:
  /// `settings` have been validated.
  explicit pool_core(const options& settings);
  ~pool_core();
  pool_core(const pool_core&) = delete;
  pool_core& operator=(const pool_core&) = delete;

  void start();  // the threads
  void post(continuation& work) noexcept override {
    work_.post(work);
    tell_if_stopping();
  }
  bool reactor_thread_begins() noexcept override { return waits_.worker_begins(); }
  void reactor_thread_left() noexcept override { waits_.worker_left(); }
  void deliver(continuation_chain ready) noexcept override;
  void yield(continuation& work) noexcept { work_.yield(work); }
  void post_long(lane_entry& entry) noexcept {
    work_.post_long(entry);
    tell_if_stopping();
  }
  void attach();
  void stop() noexcept;
  void join();
  void work_started() noexcept override { work_.work_started(); }
  void work_finished() noexcept override { work_.work_finished(); }
  [[nodiscard]] pool_statistics statistics() const;
  /// Of an outside_wait.
  void wait_for(const detail::outside_wait& me, const detail::join_word& end,
                detail::waited_work work) noexcept;
  [[nodiscard]] pool_waits& waits() noexcept { return waits_; }
  [[nodiscard]] worker_turn turn_of(unsigned index) const noexcept;
  [[nodiscard]] std::chrono::milliseconds queue_age(
      std::chrono::steady_clock::time_point now) const noexcept;
  [[nodiscard]] std::chrono::microseconds lane_age() const noexcept;

  /// Whether this process is a child of fork() of the pool's.
  [[nodiscard]] bool in_child() const noexcept { return work_.in_child(); }
  [[nodiscard]] scheduler& work() noexcept { return work_; }
  [[nodiscard]] const scheduler& work() const noexcept { return work_; }

  const options settings;

 private:
  pool_core(const options& settings, reactor_choice choice);
  [[nodiscard]] std::unique_ptr<worker> make_worker(unsigned index, reactor* own);
  [[nodiscard]] bool workers_have_own() const noexcept;
  void start_workers();
  void start_monitor();
  void join_monitor();
  /// Something has been queued, which a wait may have to discard.
  void tell_if_stopping() noexcept {
    if (work_.stopping() && !in_child()) [[unlikely]] {
      waits_.look_again();
    }
  }
  void discard_all() noexcept;
  void take_parts(detail::waited_work wanted, continuation_chain& parts) noexcept;
  void take_all(continuation_chain& parts) noexcept;

  const std::chrono::steady_clock::time_point born_ = steady_now();
  const ticks born_ticks_ = now_ticks();
  const reactor_choice choice_;
  std::vector<std::unique_ptr<reactor>> reactors_;
  scheduler work_;
  reactor_threads dedicated_{*this};

  pool_waits waits_;
  std::mutex slots_lock_;
  unsigned slots_used_;
  std::mutex attached_lock_;
  std::condition_variable detached_;
  unsigned attached_ = 0;
  std::mutex threads_lock_;
  std::vector<std::thread> threads_;
  std::thread monitor_thread_;
};

}  // namespace bwos
