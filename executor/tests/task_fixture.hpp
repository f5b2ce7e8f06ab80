// SPDX-License-Identifier: Apache-2.0
// What the tests of task share: something to wait for.
#pragma once

#include <coroutine>
#include <vector>

#include <bwos/task.hpp>

namespace bwos::testing {

using disposition = continuation::disposition;

/// Stands in for a pool or reactor: keeps what waits until the test lets it go on or discards it.
class shelf {
  struct awaiter;

 public:
  shelf() { waiting_.reserve(8); }
  awaiter wait() noexcept;
  bool run_one() noexcept { return take_one(disposition::run); }
  bool discard_one() noexcept { return take_one(disposition::discard); }
  void forget() noexcept { waiting_.clear(); }

 private:
  bool take_one(disposition how) noexcept {
    if (waiting_.empty()) return false;
    continuation& last = *waiting_.back();
    waiting_.pop_back();
    last.invoke(last, how);
    return true;
  }
  std::vector<continuation*> waiting_;
};

struct shelf::awaiter : coroutine_waiter {
  explicit awaiter(shelf& on) noexcept : at(on) {}
  [[nodiscard]] bool await_ready() const noexcept { return false; }
  template <class Promise>
  void await_suspend(std::coroutine_handle<Promise> handle) {
    set(handle);
    at.waiting_.push_back(this);
  }
  void await_resume() const noexcept {}
  shelf& at;
};

inline shelf::awaiter shelf::wait() noexcept {
  return awaiter(*this);
}

}  // namespace bwos::testing
