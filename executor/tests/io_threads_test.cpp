// SPDX-License-Identifier: Apache-2.0
// Streams on dedicated reactor threads, their continuations on an executor that is not a pool.
#include <bwos/io_threads.hpp>

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <set>
#include <stdexcept>
#include <vector>

#include "reactor_fixture.hpp"

namespace bwos::test {
namespace {

options io_settings(reactor_kind kind, unsigned threads) {
  options chosen;
  chosen.reactor = kind;
  chosen.reactor_threads = threads;
  return chosen;
}

/// A queue under a lock and two threads, with reactor threads beside it.
class guest_executor {
 public:
  explicit guest_executor(const options& settings) : io(settings, &post, this) {
    for (int i = 0; i < 2; ++i) threads_.emplace_back([this] { run(); });
  }
  /// In the order that io_threads asks for.
  ~guest_executor() {
    {
      const std::lock_guard guard(lock_);
      over_ = true;
    }
    more_.notify_all();
    for (std::thread& each : threads_) each.join();
    io.stop();
    while (!queue_.empty()) {  // a discarded one may post what frees the rest of itself
      continuation& unrun = *queue_.front();
      queue_.pop_front();
      unrun.invoke(unrun, continuation::disposition::discard);
    }
  }

  /// From now on what is posted stays queued.
  void pause() {
    const std::lock_guard guard(lock_);
    paused_ = true;
  }
  void go_on() {
    {
      const std::lock_guard guard(lock_);
      paused_ = false;
    }
    more_.notify_all();
  }
  std::size_t queued() {
    const std::lock_guard guard(lock_);
    return queue_.size();
  }

  io_threads io;

 private:
  static void post(void* executor, continuation& work) noexcept {
    auto& self = *static_cast<guest_executor*>(executor);
    {
      const std::lock_guard guard(self.lock_);
      self.queue_.push_back(&work);
    }
    self.more_.notify_one();
  }

  void run() {
    std::unique_lock guard(lock_);
    for (;;) {  // ends at the executor's
      more_.wait(guard, [&] { return over_ || (!paused_ && !queue_.empty()); });
      if (over_) return;
      continuation& work = *queue_.front();
      queue_.pop_front();
      guard.unlock();
      io.run(work);
      guard.lock();
    }
  }

  std::mutex lock_;
  std::condition_variable more_;
  std::deque<continuation*> queue_;
  bool over_ = false;
  bool paused_ = false;
  std::vector<std::thread> threads_;
};

class io_threads_on : public testing::TestWithParam<reactor_kind> {
 protected:
  void SetUp() override {
    if (GetParam() != reactor_kind::io_uring) return;
    if (const uring_support found = probe_uring(); !found.usable)
      GTEST_SKIP() << "io_uring is not usable: " << found.why;
  }
};

constexpr std::size_t no_limit = std::numeric_limits<std::size_t>::max();

TEST_P(io_threads_on, serve_connections_that_run_on_the_executors_threads_only) {
  guest_executor where(io_settings(GetParam(), 2));
  EXPECT_EQ(where.io.choice().kind, GetParam());
  std::mutex lock;
  std::set<std::thread::id> seen;
  std::set<const std::byte*> buffers;
  listener accepting(where.io, "127.0.0.1:0", 128);
  accepting.start(
      [&](stream peer) -> task<void> {
        std::vector<std::byte> kept;
        for (;;) {  // ends with the peer
          const received got = co_await peer.receive();
          if (got.error || got.end()) co_return;
          EXPECT_EQ(pool::here(), nullptr);
          {
            const std::lock_guard guard(lock);
            seen.insert(std::this_thread::get_id());
            buffers.insert(current_worker()->scratch.data());
          }
          kept.assign(got.bytes.begin(), got.bytes.end());
          const sent done = co_await peer.send(kept);
          if (done.error) co_return;
        }
      },
      no_limit);
  const std::string text = pattern(1 << 16);
  {
    std::deque<tcp_client> clients;
    for (int i = 0; i < 20; ++i) clients.emplace_back(accepting.address());
    for (int round = 0; round < times(100); ++round) {
      for (tcp_client& each : clients) ASSERT_TRUE(each.send("ping"));
      for (tcp_client& each : clients) ASSERT_EQ(each.receive(4), "ping");
    }
    std::thread sender([&] { EXPECT_TRUE(clients.front().send(text)); });
    EXPECT_TRUE(clients.front().receive(text.size()) == text);
    sender.join();
  }
  EXPECT_TRUE(eventually([&] { return accepting.connections() == 0; }));
  const std::lock_guard guard(lock);
  EXPECT_LE(seen.size(), 2U);
  EXPECT_EQ(seen.count(std::this_thread::get_id()), 0U);
  EXPECT_EQ(buffers.size(), seen.size()) << "each thread has a buffer of its own";
}

TEST_P(io_threads_on, end_waits_by_deadlines_sleeps_and_interruptions) {
  guest_executor where(io_settings(GetParam(), 1));
  std::atomic<int> late{0};
  std::atomic<int> interrupted{0};
  listener accepting(where.io, "127.0.0.1:0", 128);
  accepting.start(
      [&](stream peer) -> task<void> {
        const auto begun = steady::now();
        co_await sleep_for(20ms);
        EXPECT_GE(steady::now() - begun, 20ms);
        peer.timeout(20ms);
        const received first = co_await peer.receive();
        late += first.error == std::errc::timed_out;
        peer.no_deadline();
        const received second = co_await peer.receive();
        interrupted += second.error == std::errc::operation_canceled;
      },
      no_limit);
  const tcp_client client(accepting.address());
  EXPECT_TRUE(eventually([&] { return late == 1; }));
  accepting.interrupt_connections();
  EXPECT_TRUE(eventually([&] { return accepting.connections() == 0; }));
  EXPECT_EQ(interrupted, 1);
}

/// Descriptors are closed and used anew on the executor's threads while the reactor threads have
/// events of them.
TEST_P(io_threads_on, survive_peers_that_come_and_go_at_once) {
  guest_executor where(io_settings(GetParam(), 2));
  listener accepting(where.io, "127.0.0.1:0", 4096);
  accepting.start(echo, no_limit);
  for (int i = 0; i < times(3000); ++i) {
    tcp_client client(accepting.address());
    if (i % 3 == 1) client.reset();
    if (i % 3 == 2) client.send("gone");
    if (i % 99 == 0) {
      ASSERT_TRUE(client.send("here"));
      ASSERT_EQ(client.receive(4), "here");
    }
  }
  EXPECT_TRUE(eventually([&] { return accepting.connections() == 0; }));
}

TEST_P(io_threads_on, free_everything_that_waits_at_their_end) {
  for (int round = 0; round < 20; ++round) {
    std::atomic<int> alive{0};
    std::deque<tcp_client> clients;
    {
      const std::string text(4 << 20, 's');  // outlives the executor
      std::atomic<int> begun{0};
      guest_executor where(io_settings(GetParam(), 2));
      listener accepting(where.io, "127.0.0.1:0", 128);
      accepting.start(
          [&](stream peer) -> task<void> {
            const living me(alive);
            const int which = begun++ % 3;
            if (which == 0) static_cast<void>(co_await peer.send(bytes_of(text)));
            if (which == 1) co_await sleep_for(1h);
            for (;;) {  // ends with the executor, or its peer
              const received got = co_await peer.receive();
              if (got.error || got.end()) co_return;
            }
          },
          no_limit);
      for (int i = 0; i < 12; ++i) {
        clients.emplace_back(accepting.address());
        clients.back().send("unread");
      }
      if (round % 2 == 0) {
        EXPECT_TRUE(eventually([&] { return begun == 12; }));
      }
    }
    EXPECT_EQ(alive, 0);
  }
}

TEST_P(io_threads_on, let_go_of_what_handlers_captured_with_the_listener_or_at_their_end) {
  captures counted;
  std::deque<listener> open;  // outlive the executor
  {
    guest_executor where(io_settings(GetParam(), 2));
    for (int i = 0; i < 2; ++i) {
      open.emplace_back(where.io, "127.0.0.1:0", 128)
          .start([kept = counted.make()](stream peer) { return echo(std::move(peer)); }, no_limit);
    }
    tcp_client first(open.front().address());
    tcp_client second(open.back().address());
    ASSERT_TRUE(is_answered(first));
    ASSERT_TRUE(is_answered(second));
    open.front().close();
    ASSERT_TRUE(eventually([&] { return open.front().closed(); }));
    EXPECT_EQ(counted.alive, 2);
    first.close();
    EXPECT_TRUE(eventually([&] { return counted.alive == 1; }));
  }
  EXPECT_EQ(counted.alive, 0);
  EXPECT_EQ(counted.deaths, 2);
}

/// However much is ready: a busy executor is not posted to again. What it discards then is all of
/// it.
TEST_P(io_threads_on, post_what_is_ready_as_one) {
  std::atomic<int> received_once{0};
  std::atomic<int> received_twice{0};
  std::atomic<int> ended{0};
  std::deque<tcp_client> clients;
  {
    guest_executor where(io_settings(GetParam(), 1));
    listener accepting(where.io, "127.0.0.1:0", 128);
    accepting.start(
        [&](stream peer) -> task<void> {
          struct at_end {
            ~at_end() { ++*count; }
            std::atomic<int>* count;
          } const guard{&ended};
          static_cast<void>(co_await peer.receive());
          ++received_once;
          static_cast<void>(co_await peer.receive());
          ++received_twice;
          static_cast<void>(co_await peer.receive());
        },
        no_limit);
    for (int i = 0; i < 20; ++i) clients.emplace_back(accepting.address());
    ASSERT_TRUE(eventually([&] { return accepting.connections() == 20; }));
    for (tcp_client& each : clients) ASSERT_TRUE(each.send("first"));
    ASSERT_TRUE(eventually([&] { return received_once == 20; }));
    ASSERT_TRUE(eventually([&] { return where.queued() == 0; }));
    for (const int so_far : {0, 20}) {
      where.pause();
      for (tcp_client& each : clients) ASSERT_TRUE(each.send("next"));
      std::this_thread::sleep_for(50ms);  // most of them are found meanwhile, or all
      EXPECT_EQ(where.queued(), 1U);
      EXPECT_EQ(received_twice, so_far);
      if (so_far != 0) break;
      where.go_on();
      ASSERT_TRUE(eventually([&] { return received_twice == 20; }));
    }
    EXPECT_EQ(ended, 0);
  }
  EXPECT_EQ(ended, 20);
}

INSTANTIATE_TEST_SUITE_P(reactors, io_threads_on,
                         testing::Values(reactor_kind::epoll, reactor_kind::io_uring),
                         [](const auto& instance) {
                           return instance.param == reactor_kind::epoll ? "epoll" : "io_uring";
                         });

TEST(io_threads, want_a_reactor_and_a_thread) {
  const auto none = [](void*, continuation&) noexcept {};
  EXPECT_THROW(io_threads(io_settings(reactor_kind::epoll, 0), none, nullptr),
               std::invalid_argument);
  EXPECT_THROW(io_threads(io_settings(reactor_kind::none, 1), none, nullptr),
               std::invalid_argument);
  EXPECT_THROW(
      io_threads(io_settings(reactor_kind::epoll, options::reactor_threads_max + 1), none, nullptr),
      std::invalid_argument);
}

/// An executor's thread may be a worker of a pool otherwise.
TEST(io_threads, lend_a_worker_their_own_things_for_the_time_of_a_run) {
  struct look : continuation {
    look() noexcept : continuation(&run) {}
    static void run(continuation& self, disposition) noexcept {
      auto& mine = static_cast<look&>(self);
      mine.inside = pool::here();
      if (mine.io != nullptr) {
        look inner;
        mine.io->run(inner);
        mine.borrowed = inner.inside;
        mine.after = pool::here();
      }
    }
    io_threads* io = nullptr;
    pool_core* inside = nullptr;
    pool_core* borrowed = nullptr;
    pool_core* after = nullptr;
  };
  io_threads io(io_settings(reactor_kind::epoll, 1), [](void*, continuation&) noexcept {}, nullptr);
  pool workers(options{.workers = 1});
  look outer;
  outer.io = &io;
  workers.post(outer);
  workers.join();
  EXPECT_EQ(outer.inside, &workers.core());
  EXPECT_EQ(outer.borrowed, nullptr);
  EXPECT_EQ(outer.after, &workers.core());
}

TEST(io_threads, a_pool_without_a_reactor_takes_none) {
  options settings;
  settings.reactor_threads = 1;
  EXPECT_THROW(pool{settings}, std::invalid_argument);
}

}  // namespace
}  // namespace bwos::test
