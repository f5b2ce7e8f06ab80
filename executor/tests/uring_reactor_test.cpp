// SPDX-License-Identifier: Apache-2.0
// A ring whose kernel refuses submissions for a while, as it does without memory: its thread never
// sleeps without what ends that sleep, and does not spin instead.
#include <gtest/gtest.h>
#include <linux/io_uring.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <ctime>
#include <functional>
#include <future>
#include <memory>
#include <thread>

#include "forbidden_call.hpp"
#include "io/uring/probe.hpp"
#include "io/worker_context.hpp"

namespace bwos::test {
namespace {

using namespace std::chrono_literals;

constexpr unsigned ring_entries = 8;
constexpr std::size_t sockets_that_fill_it = 4;  // two entries each

/// Submissions that do not also ask for completions: those that make room in a full ring.
constexpr call_uses to_make_room{.argument = 3, .mask = IORING_ENTER_GETEVENTS, .value = 0};
constexpr call_uses of_two_entries{.argument = 1, .mask = ~0U, .value = 2};

class socket_pair {
 public:
  socket_pair() { EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends_), 0); }
  ~socket_pair() { ::close(ends_[1]); }  // the reactor closes the other
  socket_pair(const socket_pair&) = delete;
  socket_pair& operator=(const socket_pair&) = delete;
  [[nodiscard]] int watched() const { return ends_[0]; }
  void send() const { EXPECT_EQ(::write(ends_[1], "x", 1), 1); }

 private:
  int ends_[2] = {-1, -1};
};

struct alarm : timer_entry {
  alarm() noexcept : timer_entry(&ring) {}
  static void ring(timer_entry& self) noexcept { static_cast<alarm&>(self).rang = true; }
  std::atomic<bool> rang{false};
};

class uring_reactor : public testing::Test {
 protected:
  void SetUp() override {
    if (const uring_support found = probe_uring(); !found.usable)
      GTEST_SKIP() << "io_uring is not usable: " << found.why;
    options settings;
    settings.ring_entries = ring_entries;
    ring = make_uring_reactor(settings);
  }

  /// A thread of the ring's, which runs `body` and ends. False: it hangs; then it is rescued, by
  /// bytes for the sockets.
  bool runs(std::function<void()> body) {
    std::promise<void> over;
    std::thread worker([&] {
      worker_context mine;
      mine.home = ring.get();
      set_current_worker(&mine);
      ring->start();
      body();
      over.set_value();
    });
    std::future<void> ended = over.get_future();
    const bool in_time = ended.wait_for(20s) == std::future_status::ready;
    ending = true;
    for (const socket_pair& each : sockets) each.send();
    worker.join();
    return in_time;
  }
  void adopt(const socket_pair& which) { ASSERT_NE(ring->adopt(which.watched(), 0), nullptr); }
  void wait() {
    continuation_chain ready;
    ring->wait(ready);
  }

  std::array<socket_pair, sockets_that_fill_it + 1> sockets;
  std::unique_ptr<reactor> ring;
  std::atomic<bool> ending{false};
};

TEST_F(uring_reactor, does_not_sleep_over_a_wake_where_a_full_ring_took_no_watch) {
  std::atomic<bool> woken{false};
  std::thread waker([&] {
    std::this_thread::sleep_for(100ms);  // it sleeps by then
    woken = true;
    ring->wake();
  });
  EXPECT_TRUE(runs([&] {
    ASSERT_TRUE(forbid_call(SYS_io_uring_enter, EAGAIN, to_make_room));
    for (std::size_t i = 0; i < sockets_that_fill_it; ++i) adopt(sockets[i]);
    while (!woken && !ending) wait();
  }));
  waker.join();
}

/// Its own watch alone: that of the wakes takes the last entry.
TEST_F(uring_reactor, does_not_sleep_over_a_deadline_where_a_full_ring_took_no_watch) {
  alarm soon;
  EXPECT_TRUE(runs([&] {
    ASSERT_TRUE(forbid_call(SYS_io_uring_enter, ENOMEM, to_make_room));
    for (std::size_t i = 1; i < sockets_that_fill_it; ++i) adopt(sockets[i]);
    ASSERT_NE(ring->listen(sockets[0].watched(), false), nullptr);  // one entry
    ring->timers.arm(ring->timers.acquire(), soon, timer_service::now_ms() + 50);
    while (!soon.rang && !ending) wait();
  }));
}

TEST_F(uring_reactor, meets_what_is_ready_while_the_kernel_takes_no_submission) {
  EXPECT_TRUE(runs([&] {
    const descriptor* const polled = ring->adopt(sockets[0].watched(), 0);
    const descriptor* const waited = ring->adopt(sockets[1].watched(), 0);
    ring->wake();
    wait();
    ASSERT_TRUE(forbid_call(SYS_io_uring_enter, EAGAIN, of_two_entries));
    adopt(sockets[2]);  // two entries, never taken
    const auto is_told = [](const descriptor* of) {
      return (of->look() & descriptor::readable) != 0;
    };
    sockets[0].send();
    while (!is_told(polled) && !ending) {
      continuation_chain ready;
      ring->poll(ready, reactor::batch);
    }
    sockets[1].send();
    while (!is_told(waited) && !ending) wait();
  }));
}

TEST_F(uring_reactor, does_not_spin_while_the_kernel_takes_nothing) {
  const auto processor_time = [] {
    timespec used{};
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
    return std::chrono::seconds(used.tv_sec) + std::chrono::nanoseconds(used.tv_nsec);
  };
  EXPECT_TRUE(runs([&] {
    ASSERT_TRUE(forbid_call(SYS_io_uring_enter, ENOMEM));
    const auto before = processor_time();
    const auto end = std::chrono::steady_clock::now() + 500ms;
    while (std::chrono::steady_clock::now() < end) wait();
    EXPECT_LT(processor_time() - before, 250ms);
  }));
}

}  // namespace
}  // namespace bwos::test
