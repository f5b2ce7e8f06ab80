// SPDX-License-Identifier: Apache-2.0
// How long what a listener's handlers captured lives, on every reactor: until the listener is
// closed and its last connection has ended, or the pool ends.
#pragma once

#include <coroutine>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "reactor_fixture.hpp"

namespace bwos::test {

/// A coroutine that is a lambda's reads what that captured to the end.
TEST_P(reactor_contract, captures_end_with_the_last_connection_of_a_closed_listener) {
  captures counted;
  pool workers(settings());
  std::atomic<long> seen{0};
  listener accepting(workers, "127.0.0.1:0", 128);
  accepting.start(
      [kept = counted.make(), &seen](stream peer) -> task<void> {
        co_await echo(std::move(peer));
        seen = kept.use_count();
      },
      2);
  ASSERT_EQ(counted.alive, 1);
  std::optional<tcp_client> first(accepting.address());
  std::optional<tcp_client> last(accepting.address());
  ASSERT_TRUE(is_answered(*first));
  ASSERT_TRUE(is_answered(*last));
  accepting.close();
  ASSERT_TRUE(eventually([&] { return accepting.closed(); }));
  first.reset();
  ASSERT_TRUE(eventually([&] { return accepting.connections() == 1; }));
  EXPECT_EQ(counted.alive, 1);
  ASSERT_TRUE(is_answered(*last));
  last.reset();
  EXPECT_TRUE(eventually([&] { return counted.alive == 0; }));
  EXPECT_EQ(counted.deaths, 1);
  EXPECT_EQ(seen, 1);
  EXPECT_EQ(accepting.accepted(), 2U);  // its numbers stay
}

TEST_P(reactor_contract, captures_end_with_the_listener_where_no_connection_is_left) {
  captures counted;
  pool workers(settings());
  {
    listener accepting(workers, "127.0.0.1:0", 128);
    accepting.start(
        [kept = counted.make()](stream peer) -> task<void> { return echo(std::move(peer)); }, 2);
    tcp_client only(accepting.address());
    ASSERT_TRUE(is_answered(only));
    only.close();
    ASSERT_TRUE(eventually([&] { return accepting.connections() == 0; }));
    EXPECT_EQ(counted.alive, 1);
  }
  EXPECT_TRUE(eventually([&] { return counted.alive == 0; }));
  EXPECT_EQ(counted.deaths, 1);
}

TEST_P(reactor_contract, join_waits_for_the_end_of_what_handlers_captured) {
  std::atomic<bool> gone{false};
  pool workers(settings());
  listener accepting(workers, "127.0.0.1:0", 128);
  std::shared_ptr<void> slow(this, [&gone](void*) {
    std::this_thread::sleep_for(50ms);
    gone = true;
  });
  accepting.start([slow = std::move(slow)](stream) -> task<void> { co_return; }, 1);
  accepting.close();
  workers.join();
  EXPECT_TRUE(gone);
}

TEST_P(reactor_contract, captures_of_both_handlers_end_with_the_last_refused_connection) {
  captures counted;
  pool workers(settings());
  listener accepting(workers, "127.0.0.1:0", 128);
  const auto serve = [kept = counted.make()](stream peer) { return echo(std::move(peer)); };
  accepting.start(
      serve, 1, [kept = counted.make()](stream peer) { return echo(std::move(peer)); }, 1);
  tcp_client inside(accepting.address());
  ASSERT_TRUE(is_answered(inside));
  tcp_client refused(accepting.address());
  ASSERT_TRUE(is_answered(refused));
  ASSERT_EQ(accepting.refused(), 1U);
  accepting.close();
  ASSERT_TRUE(eventually([&] { return accepting.closed(); }));
  inside.close();
  ASSERT_TRUE(eventually([&] { return accepting.connections() == 0; }));
  EXPECT_EQ(counted.deaths, 0);
  ASSERT_TRUE(is_answered(refused));
  refused.close();
  EXPECT_TRUE(eventually([&] { return counted.deaths == 1; }));
  EXPECT_EQ(counted.alive, 1);  // `serve` above has the other
}

TEST_P(reactor_contract, whom_a_listener_does_not_admit_is_told_by_the_other_handler) {
  captures counted;
  {
    pool workers(settings());
    listener accepting(workers, "127.0.0.1:0", 128);
    EXPECT_GE(accepting.native_handle(), 0);
    std::atomic<int> asked{0};
    accepting.start(
        echo, 10,
        [](stream peer) -> task<void> {
          peer.try_send(bytes_of("no"));
          co_return;
        },
        10,
        [&asked, kept = counted.make()](int accepted) {
          return accepted >= 0 && ++asked % 2 == 1;
        });
    tcp_client first(accepting.address());
    ASSERT_TRUE(is_answered(first));
    tcp_client second(accepting.address());
    EXPECT_EQ(second.receive(3), "no");
    tcp_client third(accepting.address());
    EXPECT_TRUE(is_answered(third));
    EXPECT_EQ(accepting.accepted(), 2U);
    EXPECT_EQ(accepting.refused(), 0U);  // whoever did not admit it counts it
    EXPECT_EQ(asked, 3);
    first.close();
    third.close();
    accepting.close();
    workers.join();
  }
  EXPECT_EQ(counted.deaths, 1);
  EXPECT_EQ(counted.alive, 0);
}

TEST_P(reactor_contract, a_thousand_listeners_on_one_pool_leave_nothing) {
  captures counted;
  constexpr int at_once = 50;  // each closes in a tenth of a second
  pool workers(settings());
  int made = 0;
  while (made < times(1000)) {
    std::deque<listener> some;
    for (int i = 0; i < at_once; ++i, ++made) {
      listener& each = some.emplace_back(workers, "127.0.0.1:0", 8);
      if (i % 10 == 9) continue;  // never started
      each.start([kept = counted.make()](stream peer) { return echo(std::move(peer)); }, 4);
      if (i % 5 == 0) {
        tcp_client visitor(each.address());
        ASSERT_TRUE(is_answered(visitor));
      }
    }
    EXPECT_EQ(counted.alive, at_once * 9 / 10);
    some.clear();
    ASSERT_TRUE(eventually([&] { return counted.alive == 0; })) << counted.alive << " of " << made;
  }
  EXPECT_EQ(counted.deaths, made * 9 / 10);
}

/// What a capture may still do while it dies: use the reactors, and post.
class last_wish {
 public:
  last_wish(pool& where, std::atomic<int>& granted) : where_(where), granted_(granted) {}
  last_wish(const last_wish&) = delete;
  last_wish& operator=(const last_wish&) = delete;
  ~last_wish() {
    EXPECT_EQ(visitor.interrupt(), nullptr);
    where_.post(*new posted(granted_));
  }
  stream_waker visitor;

 private:
  struct posted : continuation {
    explicit posted(std::atomic<int>& granted) : continuation(&grant), count(granted) {}
    static void grant(continuation& self, disposition) noexcept {
      auto* const mine = static_cast<posted*>(&self);
      ++mine->count;
      delete mine;
    }
    std::atomic<int>& count;
  };
  pool& where_;
  std::atomic<int>& granted_;
};

TEST_P(reactor_contract, a_pool_that_ends_destroys_each_capture_once_and_before_its_reactors) {
  captures counted;
  std::atomic<int> granted{0};
  std::atomic<int> begun{0};
  std::deque<listener> open;  // outlive their pool
  std::deque<tcp_client> clients;
  auto workers = std::make_unique<pool>(settings());
  for (int i = 0; i < 10; ++i) {
    listener& each = open.emplace_back(*workers, "127.0.0.1:0", 128);
    auto wish = std::make_shared<last_wish>(*workers, granted);
    each.start(
        [wish = std::move(wish), kept = counted.make(), &begun](stream peer) -> task<void> {
          wish->visitor = peer.waker();
          ++begun;
          co_await echo(std::move(peer));
        },
        4);
    if (i % 3 != 0) clients.emplace_back(each.address());
    if (i % 5 == 0) each.close();  // has not closed yet when the pool ends, or has
  }
  EXPECT_TRUE(eventually([&] { return begun == 6; }));
  workers.reset();
  EXPECT_EQ(granted, 10);
  EXPECT_EQ(counted.alive, 0);
  EXPECT_EQ(counted.deaths, 10);
  for (const listener& each : open) EXPECT_TRUE(each.closed());
  open.clear();
  EXPECT_EQ(counted.deaths, 10);
}

/// Suspends for ever: nobody knows what to resume, and so nobody can discard it.
struct forever {
  static inline void* last = nullptr;  // so that the leak checker finds all of them
  void* before = nullptr;
  bool await_ready() const noexcept { return false; }
  void await_suspend(std::coroutine_handle<> waiting) noexcept {
    before = std::exchange(last, waiting.address());
  }
  void await_resume() const noexcept {}
};

TEST_P(reactor_contract, a_pool_that_ends_destroys_captures_of_connections_that_never_end) {
  captures counted;
  std::atomic<bool> begun{false};
  std::atomic<int> granted{0};
  {
    pool workers(settings());
    listener accepting(workers, "127.0.0.1:0", 128);
    auto wish = std::make_shared<last_wish>(workers, granted);
    accepting.start(
        [wish = std::move(wish), kept = counted.make(), &begun](stream peer) -> task<void> {
          begun = true;
          co_await forever();
          peer.close();
        },
        4);
    const tcp_client client(accepting.address());
    EXPECT_TRUE(eventually([&] { return begun.load(); }));
  }
  EXPECT_EQ(counted.alive, 0);
  EXPECT_EQ(counted.deaths, 1);
  EXPECT_EQ(granted, 1);
}

/// As the echo, and says when it was interrupted.
inline task<void> hold(stream peer, std::atomic<int>& interrupted) {
  for (;;) {  // ends with the peer
    const received got = co_await peer.receive();
    if (got.error == std::errc::operation_canceled) {
      ++interrupted;
      continue;
    }
    if (got.error || got.end()) co_return;
    const std::vector<std::byte> kept(got.bytes.begin(), got.bytes.end());
    static_cast<void>(co_await peer.send(kept));
  }
}

/// A stream may outlive the coroutine that it was made for, and with it the listener; a new one may
/// then lie where that lay.
TEST_P(reactor_contract, an_interruption_reaches_no_stream_of_a_listener_that_has_gone) {
  captures counted;
  std::atomic<int> interrupted{0};
  pool workers(settings());
  std::deque<tcp_client> kept_ones;
  for (int i = 0; i < 5; ++i) {
    {
      listener gone(workers, "127.0.0.1:0", 128);
      gone.start(
          [&, kept = counted.make()](stream peer) -> task<void> {
            spawn(workers, hold(std::move(peer), interrupted));
            co_return;
          },
          4);
      ASSERT_TRUE(is_answered(kept_ones.emplace_back(gone.address())));
      gone.close();
      ASSERT_TRUE(eventually([&] { return counted.alive == 0; }));
      std::this_thread::sleep_for(1ms);  // so that this thread frees it, and gets that memory again
    }
    std::deque<listener> others;
    for (int k = 0; k < 5; ++k) {
      others.emplace_back(workers, "127.0.0.1:0", 128).interrupt_connections();
    }
    for (tcp_client& each : kept_ones) ASSERT_TRUE(is_answered(each));
  }
  EXPECT_EQ(interrupted, 0);
}

}  // namespace bwos::test
