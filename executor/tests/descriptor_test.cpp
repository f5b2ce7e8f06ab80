// SPDX-License-Identifier: Apache-2.0
// The handshake of descriptor.hpp, raced: no wait is lost (D1), no waiter handed on twice (D2).
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "io/epoll/epoll_reactor.hpp"

namespace bwos {
namespace {

constexpr int notifications = 200'000;

/// Stands for a suspended coroutine: who is handed it says so, once per wait.
struct sleeper : continuation {
  sleeper() noexcept : continuation(&run) {}
  static void run(continuation& self, disposition) noexcept {
    auto& me = static_cast<sleeper&>(self);
    me.frame += 1;  // plain: a race if the wait has not published the frame
    if (me.resumed.exchange(true, std::memory_order_release)) me.twice = true;
  }
  /// False: lost.
  bool sleep() noexcept {
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    for (unsigned turn = 1; !resumed.exchange(false, std::memory_order_acquire); ++turn) {
      if (turn % 64 != 0) continue;
      std::this_thread::yield();
      if (std::chrono::steady_clock::now() > limit) return false;
    }
    return true;
  }
  std::atomic<bool> resumed{false};
  std::atomic<bool> twice{false};
  int frame = 0;
};

class descriptor_handshake : public testing::Test {
 protected:
  /// `count` notifications from each of several threads, each of a thing to be done, against a
  /// runner that does things and waits when there are none.
  void race(std::uint32_t direction, std::vector<std::uint32_t> what, std::uint32_t consumed) {
    const int each = notifications / static_cast<int>(what.size());
    std::atomic<int> things{0};
    std::atomic<int> seen{0};
    std::vector<std::thread> notifiers;
    for (const std::uint32_t bits : what) {
      notifiers.emplace_back([&, bits] {
        for (int i = 0; i < each; ++i) {
          const int mine = things.fetch_add(1, std::memory_order_relaxed) + 1;
          if (continuation* const work = socket.notify(bits)) {
            work->invoke(*work, continuation::disposition::run);
          }
          // Now and then nothing more comes until it has been seen: a lost wait stays one.
          const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(30);
          while (i % 4 == 0 && seen.load(std::memory_order_relaxed) < mine) {
            std::this_thread::yield();
            if (std::chrono::steady_clock::now() > limit) break;
          }
        }
      });
    }
    const int all = each * static_cast<int>(what.size());
    int waits = 0;
    for (int done = 0; done < all;) {
      socket.consume(consumed);
      const int found = things.load(std::memory_order_relaxed);
      if (found != done) {
        done = found;
        seen.store(done, std::memory_order_relaxed);
        continue;
      }
      work.frame = 0;
      if (!socket.wait(direction, work)) continue;
      ++waits;
      const bool woken = work.sleep();
      EXPECT_TRUE(woken) << "lost after " << done << " of " << all;
      EXPECT_EQ(work.frame, 1);
      if (HasFailure()) break;
    }
    seen = all;  // lets everybody go
    for (std::thread& thread : notifiers) thread.join();
    EXPECT_FALSE(work.twice);
    EXPECT_FALSE(work.resumed);
    EXPECT_GT(waits, 0);
  }

  epoll_reactor home{false};
  descriptor socket{home};
  sleeper work;
};

TEST_F(descriptor_handshake, loses_no_wait_for_receiving_and_ends_each_once) {
  race(descriptor::waiting_in,
       {descriptor::readable, descriptor::interrupted, descriptor::readable | descriptor::writable},
       descriptor::readable | descriptor::interrupted);
}

TEST_F(descriptor_handshake, loses_no_wait_for_sending_and_ends_each_once) {
  race(descriptor::waiting_out,
       {descriptor::writable, descriptor::expired, descriptor::readable | descriptor::writable},
       descriptor::writable | descriptor::expired);
}

TEST_F(descriptor_handshake, does_not_wait_over_what_was_notified_before) {
  for (const std::uint32_t what :
       {descriptor::readable, descriptor::hangup, descriptor::expired, descriptor::interrupted}) {
    EXPECT_EQ(socket.notify(what), nullptr);
    EXPECT_FALSE(socket.wait(descriptor::waiting_in, work));
    socket.consume(what);
  }
  ASSERT_TRUE(socket.wait(descriptor::waiting_in, work));
  EXPECT_EQ(socket.notify(descriptor::writable), nullptr);  // not what it waits for
  EXPECT_EQ(socket.notify(descriptor::readable), &work);
  EXPECT_EQ(socket.look(), std::uint32_t{descriptor::writable});  // the reader consumes its own
  EXPECT_EQ(socket.notify(descriptor::hangup), nullptr);
}

TEST_F(descriptor_handshake, lets_a_peer_that_half_closed_be_sent_to) {
  ASSERT_TRUE(socket.wait(descriptor::waiting_out, work));
  EXPECT_EQ(socket.notify(descriptor::hangup | descriptor::readable), nullptr);
  EXPECT_EQ(socket.notify(descriptor::writable), &work);
  EXPECT_EQ(socket.look(),
            std::uint32_t{descriptor::hangup | descriptor::readable | descriptor::writable});
}

TEST_F(descriptor_handshake, only_who_waits_to_receive_and_has_nothing_else_is_told_to_leave) {
  sleeper runner;
  EXPECT_EQ(socket.tell_unwanted(), nullptr);
  ASSERT_TRUE(socket.wait(descriptor::waiting_out, runner));
  EXPECT_EQ(socket.tell_unwanted(), nullptr);
  EXPECT_EQ(socket.notify(descriptor::writable), &runner);
  socket.consume(descriptor::writable);
  EXPECT_EQ(socket.notify(descriptor::readable), nullptr);
  EXPECT_EQ(socket.tell_unwanted(), nullptr);
  socket.consume(descriptor::readable);
  ASSERT_TRUE(socket.wait(descriptor::waiting_in, runner));
  EXPECT_EQ(socket.tell_unwanted(), &runner);
  EXPECT_EQ(socket.tell_unwanted(), nullptr);
  EXPECT_EQ(socket.notify(descriptor::readable), nullptr);  // comes to nobody twice
  EXPECT_EQ(socket.look(), descriptor::unwanted | descriptor::readable);
}

}  // namespace
}  // namespace bwos
