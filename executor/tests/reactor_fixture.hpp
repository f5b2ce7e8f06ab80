// SPDX-License-Identifier: Apache-2.0
// A pool on one reactor, a listener with a handler, and a way to make a continuation be stolen.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <bwos/pool.hpp>
#include <bwos/stream.hpp>
#include <bwos/task.hpp>
#include <bwos/timer.hpp>
#include <chrono>
#include <coroutine>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "io/uring/probe.hpp"
#include "io/worker_context.hpp"
#include "pool/pool_core.hpp"
#include "tcp_client.hpp"

namespace bwos::test {

using namespace std::chrono_literals;
using steady = std::chrono::steady_clock;

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
inline constexpr bool sanitized = true;
#elif defined(__has_feature)
inline constexpr bool sanitized =
    __has_feature(thread_sanitizer) || __has_feature(address_sanitizer);
#else
inline constexpr bool sanitized = false;
#endif

/// A tenth of the repetitions where each costs ten times as much.
constexpr int times(int count) {
  return sanitized ? count / 10 : count;
}

struct flavour {
  reactor_kind kind;
  unsigned group;
  unsigned threads = 0;  // dedicated ones
};

inline std::string worker_count_name(const testing::TestParamInfo<flavour>&) {
  return "two_workers";
}

class reactor_contract : public testing::TestWithParam<flavour> {
 protected:
  void SetUp() override {
    if (GetParam().kind != reactor_kind::io_uring) return;
    if (const uring_support found = probe_uring(); !found.usable)
      GTEST_SKIP() << "io_uring is not usable: " << found.why;
  }

  [[nodiscard]] static options settings() {
    options chosen;
    chosen.workers = 2;
    chosen.reactor = GetParam().kind;
    chosen.reactor_group = GetParam().group;
    chosen.reactor_threads = GetParam().threads;
    return chosen;
  }
};

/// Listens on a port of the kernel's choice until it goes out of scope.
struct test_server {
  explicit test_server(const options& settings, listener::handler handler,
                       std::size_t connections_max = std::numeric_limits<std::size_t>::max(),
                       listener::handler on_refused = {}, std::size_t refusals_max = 0)
      : workers(settings), accepting(workers, "127.0.0.1:0", 4096) {
    EXPECT_EQ(workers.statistics().reactor, settings.reactor);
    accepting.start(std::move(handler), connections_max, std::move(on_refused), refusals_max);
    address = accepting.address();
  }
  /// Accepts no more, and waits for the connections to end.
  void finish() {
    accepting.close();
    workers.join();
  }

  pool workers;
  listener accepting;
  std::string address;
};

inline std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

/// Sends back what it receives, until the end.
inline task<void> echo(stream peer) {
  std::vector<std::byte> kept;
  for (;;) {  // ends with the peer
    const received got = co_await peer.receive();
    if (got.error || got.end()) co_return;
    kept.assign(got.bytes.begin(), got.bytes.end());
    const sent done = co_await peer.send(kept);
    if (done.error) co_return;
  }
}

/// By an echo.
inline bool is_answered(tcp_client& by) {
  return by.send("x") && by.receive(1) == "x";
}

/// Text that differs from place to place.
inline std::string pattern(std::size_t size, unsigned seed = 0) {
  std::string text(size, '\0');
  std::uint32_t state = seed * 2654435761U + 1;
  for (char& each : text) {
    state = state * 1664525U + 1013904223U;
    each = static_cast<char>(state >> 24);
  }
  return text;
}

/// Counts itself where it lives, in a coroutine's frame.
struct living {
  explicit living(std::atomic<int>& in) : count(&in) { ++*count; }
  living(living&& other) noexcept : count(std::exchange(other.count, nullptr)) {}
  ~living() {
    if (count != nullptr) --*count;
  }
  std::atomic<int>* count;
};

/// Makes what handlers capture here, and counts it.
struct captures {
  [[nodiscard]] std::shared_ptr<void> make() {
    ++alive;
    return {this, [](captures* of) {
              ++of->deaths;
              --of->alive;
            }};
  }
  std::atomic<int> alive{0};
  std::atomic<int> deaths{0};
};

/// Polls for something that another thread brings about.
template <class Condition>
bool eventually(Condition condition) {
  const steady::time_point limit = steady::now() + 30s;
  while (!condition()) {
    if (steady::now() > limit) return false;
    std::this_thread::sleep_for(1ms);
  }
  return true;
}

/// `co_await mover.move()` goes on on another worker, by theft: the own one is kept busy until
/// then. Belongs to one coroutine; needs two workers that steal. One at a time keeps its worker
/// busy: while another does, or when nobody comes, the coroutine goes on where it is. Not while a
/// pool ends.
class mover {
 public:
  explicit mover(pool& where) noexcept : where_(where) {}
  ~mover() { settle(); }

  auto move() noexcept { return awaiter(*this); }

 private:
  struct awaiter : coroutine_waiter {
    explicit awaiter(mover& of) noexcept : of_(of) {}
    bool await_ready() const noexcept {
      of_.settle();
      return busy.exchange(true, std::memory_order_acquire);
    }
    template <class Promise>
    void await_suspend(std::coroutine_handle<Promise> waiting) {
      set(waiting);
      mover& of = of_;  // this awaiter is gone as soon as it is stolen
      of.staying_.store(true, std::memory_order_relaxed);
      of.arrived_.store(false, std::memory_order_relaxed);
      pool& where = of.where_;
      where.post(*this);
      where.post(*new bystander);  // two are a backlog, for which somebody is woken
      const steady::time_point limit = steady::now() + 50ms;
      while (!of.arrived_.load(std::memory_order_acquire) && steady::now() < limit)
        std::this_thread::yield();
      busy.store(false, std::memory_order_release);
      of.staying_.store(false, std::memory_order_release);  // the last touch
    }
    void await_resume() const noexcept { of_.arrived_.store(true, std::memory_order_release); }
    mover& of_;
  };

  struct bystander : continuation {
    bystander() noexcept : continuation(&pass) {}
    static void pass(continuation& self, disposition) noexcept {
      delete static_cast<bystander*>(&self);
    }
  };

  /// Until the former worker is done with this.
  void settle() noexcept {
    while (staying_.load(std::memory_order_acquire)) std::this_thread::yield();
  }

  inline static std::atomic<bool> busy{false};
  pool& where_;
  std::atomic<bool> arrived_{false};
  std::atomic<bool> staying_{false};
};

/// The worker that runs the caller.
inline unsigned here() {
  return current_worker()->index;
}

}  // namespace bwos::test
