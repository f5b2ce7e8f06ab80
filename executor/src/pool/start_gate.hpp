// SPDX-License-Identifier: Apache-2.0
// Threads that each build something of their own, and go on together once all have, or not at all.
#pragma once

#include <condition_variable>
#include <exception>
#include <mutex>
#include <utility>

namespace bwos {

class start_gate {
 public:
  /// A thread has built its part, or has failed to; waits for open(). False: it shall end.
  bool arrive_and_wait(std::exception_ptr failure) {
    std::unique_lock guard(lock_);
    ++arrived_;
    if (failure != nullptr && first_failure_ == nullptr) first_failure_ = std::move(failure);
    changed_.notify_all();
    changed_.wait(guard, [&] { return state_ != state::closed; });
    return state_ == state::open;
  }
  /// Until so many have arrived. Throws the first one's failure, if there is any.
  void wait_for(unsigned threads) {
    std::unique_lock guard(lock_);
    changed_.wait(guard, [&] { return arrived_ == threads; });
    if (first_failure_ != nullptr) std::rethrow_exception(first_failure_);
  }
  /// All go on; or, not `all_well`, all end. The first call counts.
  void open(bool all_well) noexcept {
    const std::lock_guard guard(lock_);
    if (state_ == state::closed) state_ = all_well ? state::open : state::over;
    changed_.notify_all();
  }

 private:
  enum class state : unsigned char { closed, open, over };
  std::mutex lock_;
  std::condition_variable changed_;
  unsigned arrived_ = 0;
  state state_ = state::closed;
  std::exception_ptr first_failure_;
};

}  // namespace bwos
