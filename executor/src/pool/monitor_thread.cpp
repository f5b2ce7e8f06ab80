// SPDX-License-Identifier: Apache-2.0
#include "pool/monitor_thread.hpp"

#include <pthread.h>

#include "pool/pool_core.hpp"
#include "pool/worker.hpp"

namespace bwos {
namespace {

/// Between two looks. What waits behind a long task does so for two of them at most.
constexpr std::int64_t period_ms = 1;
/// Looks that find all workers parked before it sleeps: a guess, so that it is not woken for every
/// request of a server with little to do.
constexpr unsigned quiet_looks = 10;

bool has_something_to_steal(worker& victim) noexcept {
  const worker::queue::thief blocks = victim.thief();
  for (std::size_t block = 0; block < worker::queue::block_count; ++block) {
    if (blocks.sample(block)) return true;
  }
  return false;
}

}  // namespace

void monitor_thread::start() {
  if (thread_.joinable()) return;
  thread_ = std::thread([this]() noexcept { run(); });
  ::pthread_setname_np(thread_.native_handle(), "bwos-monitor");
}

void monitor_thread::join() {
  if (thread_.joinable()) thread_.join();
}

void monitor_thread::run() noexcept {
  unsigned quiet = 0;
  while (!pool_.stopping()) {
    quiet = pool_.all_parked() ? quiet + 1 : 0;
    if (quiet <= quiet_looks) {
      look();
      parker_.wait(period_ms);
      continue;
    }
    // [monitor.asleep] seq_cst: before the look that follows (M1). Partner: [monitor.asleep.look].
    asleep_.store(true, std::memory_order_seq_cst);
    if (pool_.all_parked()) parker_.wait(-1);
    // [monitor.awake] relaxed: who sees it late wakes it once more. Partner:
    // [monitor.asleep.look].
    asleep_.store(false, std::memory_order_relaxed);
    quiet = 0;
  }
}

void monitor_thread::look() noexcept {
  bool wanted = pool_.long_work.has_aged();
  for (unsigned i = 0; i < pool_.slots(); ++i) {
    worker& each = pool_.slot(i);
    const std::uint64_t begun = each.tasks_begun();
    const bool same_task = begun == begun_[i];
    begun_[i] = begun;
    wanted = wanted || (same_task && pool_.settings.steal != steal_kind::none &&
                        has_something_to_steal(each));
  }
  if (wanted) pool_.wake_one(0);
}

}  // namespace bwos
