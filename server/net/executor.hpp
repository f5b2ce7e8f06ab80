// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bwos/continuation.hpp>
#include <bwos/lane.hpp>
#include <bwos/pool.hpp>
#include <bwos/waiter.hpp>

namespace bwos::server {

/// Where handlers run, as connections and gRPC calls see it. Its calls are virtual: none of them is
/// on the way of an ordinary HTTP request, which its reactor brings to a worker without being asked
/// to. All members: any thread.
class executor {
 public:
  executor() = default;
  executor(const executor&) = delete;
  executor& operator=(const executor&) = delete;

  virtual void post(continuation& work) noexcept = 0;
  /// Behind what is ready, for a continuation that has used its share of time.
  virtual void yield(continuation& work) noexcept = 0;
  /// For long work; `place` is the executor's until `work` is invoked. One without a lane posts it.
  virtual void post_long(continuation& work, lane_entry& place) noexcept = 0;
  /// A thread has nothing to do, and would take what the caller posts: a hint, soon out of date. An
  /// executor that cannot tell says no.
  [[nodiscard]] virtual bool has_idle() const noexcept = 0;

  /// Awaitables: the coroutine goes on through yield(work) or post_long(work). `since`:
  /// lane_entry::since.
  [[nodiscard]] auto yield() noexcept {
    return handed_on([this](continuation& work) noexcept { yield(work); });
  }
  [[nodiscard]] auto lane(std::uint64_t since = 0) noexcept {
    return handed_on([this, place = lane_entry{.since = since}](
                         continuation& work) mutable noexcept { post_long(work, place); });
  }

 protected:
  ~executor() = default;
};

/// A pool of ours.
class pool_executor final : public executor {
 public:
  explicit pool_executor(pool& workers) noexcept : workers_(workers) {}
  using executor::yield;
  void post(continuation& work) noexcept override { workers_.post(work); }
  void yield(continuation& work) noexcept override { workers_.yield(work); }
  void post_long(continuation& work, lane_entry& place) noexcept override {
    workers_.post_long(work, place);
  }
  [[nodiscard]] bool has_idle() const noexcept override { return workers_.has_idle(); }

 private:
  pool& workers_;
};

}  // namespace bwos::server
