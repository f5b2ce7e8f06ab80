// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <stop_token>
#include <thread>
#include <utility>

namespace bwos::server::test {

/// What a thread of its own does later. Any thread.
class agenda {
 public:
  using clock = std::chrono::steady_clock;
  using entry = std::pair<clock::time_point, std::uint64_t>;

  /// `what`: short; must not call back.
  [[nodiscard]] entry at(clock::time_point when, std::function<void()> what) {
    const std::scoped_lock lock(mutex_);
    const entry made{when, ++made_};
    entries_.emplace(made, std::move(what));
    if (entries_.begin()->first == made) changed_.notify_one();
    return made;
  }
  /// When this returns it has been done, or will never be.
  void remove(const entry& which) {
    const std::scoped_lock lock(mutex_);
    entries_.erase(which);
  }

 private:
  void run(const std::stop_token& over) {
    std::unique_lock lock(mutex_);
    while (!over.stop_requested()) {
      if (entries_.empty()) {
        changed_.wait(lock, over, [&] { return !entries_.empty(); });
      } else if (const entry first = entries_.begin()->first; first.first > clock::now()) {
        changed_.wait_until(lock, over, first.first,
                            [&] { return entries_.empty() || entries_.begin()->first < first; });
      } else {
        entries_.extract(entries_.begin()).mapped()();
      }
    }
  }

  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::uint64_t made_ = 0;
  std::map<entry, std::function<void()>> entries_;
  std::jthread thread_{[this](const std::stop_token& over) { run(over); }};
};

}  // namespace bwos::server::test
