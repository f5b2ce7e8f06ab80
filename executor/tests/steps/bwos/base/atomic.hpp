// SPDX-License-Identifier: Apache-2.0
// Stands in front of the library's header of this name in <queue>_steps_test: an atomic that
// calls a function after each of its writes, so that a test looks at the queue between any two
// of its steps. One thread.
#pragma once

#include <atomic>

namespace bwos {

/// Called after each write; null: nothing is.
inline void (*after_each_write)() = nullptr;

template <class T>
class atomic {
 public:
  atomic() = default;
  explicit atomic(T first) : value_(first) {}

  T load(std::memory_order order) const { return value_.load(order); }
  void store(T to, std::memory_order order) {
    value_.store(to, order);
    written();
  }
  T exchange(T to, std::memory_order order) {
    const T old = value_.exchange(to, order);
    written();
    return old;
  }
  T fetch_add(T by, std::memory_order order) {
    const T old = value_.fetch_add(by, order);
    written();
    return old;
  }
  bool compare_exchange_strong(T& seen, T to, std::memory_order success,
                               std::memory_order failure) {
    const bool done = value_.compare_exchange_strong(seen, to, success, failure);
    if (done) written();
    return done;
  }

 private:
  static void written() {
    if (after_each_write != nullptr) after_each_write();
  }

  std::atomic<T> value_;
};

}  // namespace bwos
