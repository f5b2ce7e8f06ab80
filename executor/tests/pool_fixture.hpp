// SPDX-License-Identifier: Apache-2.0
// What the pool's tests share: the ways to park, and continuations made of lambdas.
#pragma once

#include <gtest/gtest.h>

#include <bwos/pool.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <thread>

#include "pool/pool_core.hpp"

namespace bwos::testing {

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
inline constexpr int sanitizer_divisor = 10;
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer) || __has_feature(address_sanitizer)
inline constexpr int sanitizer_divisor = 10;
#else
inline constexpr int sanitizer_divisor = 1;
#endif
#else
inline constexpr int sanitizer_divisor = 1;
#endif

/// How workers wait: each suite runs on all of them.
struct parking {
  const char* name;
  reactor_kind reactor;
  unsigned group;
};

inline const parking on_futexes{"futex", reactor_kind::none, 1};
inline const parking on_private_sets{"private_epoll", reactor_kind::epoll, 1};
inline const parking on_a_shared_set{"shared_epoll", reactor_kind::epoll, 8};

inline options options_of(const parking& how, unsigned workers) {
  options result;
  result.workers = workers;
  result.reactor = how.reactor;
  result.reactor_group = how.group;
  return result;
}

inline std::string name_of(const ::testing::TestParamInfo<parking>& info) {
  return info.param.name;
}

/// A continuation that runs a function every time and frees nothing.
struct call : continuation {
  explicit call(std::function<void()> body) : continuation(&run), body_(std::move(body)) {}
  int runs = 0;
  int discards = 0;

 private:
  static void run(continuation& self, disposition how) noexcept {
    auto& mine = static_cast<call&>(self);
    if (how == disposition::discard) {
      ++mine.discards;
    } else {
      ++mine.runs;
      mine.body_();
    }
  }
  std::function<void()> body_;
};

/// A heap-allocated continuation that frees itself.
struct heap_call : continuation {
  static void post(pool& where, std::function<void()> body) {
    where.post(*new heap_call(std::move(body)));
  }

 private:
  explicit heap_call(std::function<void()> body) : continuation(&run), body_(std::move(body)) {}
  static void run(continuation& self, disposition how) noexcept {
    auto* const mine = static_cast<heap_call*>(&self);
    const std::function<void()> body = std::move(mine->body_);
    delete mine;
    if (how == disposition::run) body();
  }
  std::function<void()> body_;
};

inline void spin_for(std::chrono::microseconds time) {
  const auto end = std::chrono::steady_clock::now() + time;
  while (std::chrono::steady_clock::now() < end) {
  }
}

/// Waits for something that must come, giving up after a minute. `pause`: sleeps in between, where
/// a thread that yields all the time would take a core from the pool.
template <class Condition>
[[nodiscard]] bool eventually(Condition condition, std::chrono::microseconds pause = {}) {
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > limit) return false;
    if (pause.count() == 0) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(pause);
    }
  }
  return true;
}

inline bool all_parked(pool& where) {
  return where.core().work().idle.parked() == where.core().work().slots();
}

}  // namespace bwos::testing
