// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <bwos/pool.hpp>
#include <bwos/task.hpp>
#include <memory>
#include <thread>
#include <vector>

#include "net/reply_inbox.hpp"

namespace bwos::server {
namespace {

std::size_t count(const inbox_entry* list) {
  std::size_t entries = 0;
  for (; list != nullptr; list = list->next_reply) ++entries;
  return entries;
}

TEST(reply_inbox, only_the_first_push_of_a_burst_has_to_tell) {
  reply_inbox inbox;
  std::array<inbox_entry, 3> entries;
  EXPECT_EQ(inbox.take(), nullptr);
  EXPECT_TRUE(inbox.push(entries[0]).first);
  EXPECT_FALSE(inbox.push(entries[1]).first);
  EXPECT_EQ(count(inbox.take()), 2U);
  EXPECT_EQ(inbox.take(), nullptr);
  EXPECT_TRUE(inbox.push(entries[2]).first);
  EXPECT_EQ(count(inbox.take()), 1U);
}

/// One connection's end: `rounds` times it waits for `pushers` pushes of other threads, and frees
/// everything.
task<void> collect(pool& where, int rounds, int pushers, std::atomic<int>& ended) {
  for (int round = 0; round < rounds; ++round) {
    auto inbox = std::make_unique<reply_inbox>();
    auto entries = std::make_unique<inbox_entry[]>(static_cast<std::size_t>(pushers));
    struct push_work : continuation {
      push_work(pool& on, reply_inbox& to, inbox_entry& what) noexcept
          : continuation(&run), where(on), inbox(to), entry(what) {}
      static void run(continuation& self, disposition) noexcept {
        auto& work = static_cast<push_work&>(self);
        pool& on = work.where;
        reply_inbox& to = work.inbox;
        inbox_entry& what = work.entry;
        delete &work;
        if (continuation* const runner = to.push(what).runner) on.post(*runner);
        on.work_finished();
      }
      pool& where;
      reply_inbox& inbox;
      inbox_entry& entry;
    };
    for (int i = 0; i < pushers; ++i) {
      where.work_started();
      where.post(*new push_work(where, *inbox, entries[static_cast<std::size_t>(i)]));
    }
    for (int left = pushers; left > 0;) {
      co_await inbox->wait();
      left -= static_cast<int>(count(inbox->take()));
    }
  }
  ended.fetch_add(1);
}

TEST(reply_inbox, a_runner_that_sleeps_there_is_woken_and_may_free_it) {
  options settings;
  settings.workers = 4;
  pool workers(settings);
  std::atomic<int> ended{0};
  for (int i = 0; i < 4; ++i) spawn(workers, collect(workers, 2000, 3, ended));
  workers.join();
  EXPECT_EQ(ended.load(), 4);
}

}  // namespace
}  // namespace bwos::server
