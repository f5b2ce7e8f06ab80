// SPDX-License-Identifier: Apache-2.0
// Question: what does decoding a JSON document cost where each is a task, in FIFO order, in LIFO
// order, and on peers, by the number of workers? (Wang et al., OSDI '23, section 6.3.3: FIFO block
// queues in Go, whose JSON libraries gained 1.26 times.)
// Expected: FIFO and LIFO order differ by less than a twentieth; from 4 workers on
// asio::thread_pool, whose workers share one queue, takes 1.25 times as long.
#include <asio/post.hpp>
#include <asio/thread_pool.hpp>
#include <bwos/asio.hpp>
#include <bwos/continuation.hpp>
#include <bwos/pool.hpp>
#include <bwos/sync_wait.hpp>
#include <bwos/task_group.hpp>

#include <atomic>
#include <cstddef>
#include <deque>

#include "answer.hpp"
#include "json_cases.hpp"

namespace bwos::bench {
namespace {

/// Documents are continuations that exist already, which run in FIFO order. The last one of a batch
/// to end posts the next batch.
class queued {
  struct task : continuation {
    task(queued& its, std::size_t number) noexcept
        : continuation(&run), of(its), document(number) {}
    queued& of;
    const std::size_t document;

   private:
    static void run(continuation& self, disposition how) noexcept {
      if (how != disposition::run) return;
      auto& mine = static_cast<task&>(self);
      mine.of.all_.decode(mine.document);
      if (mine.of.running_.fetch_sub(1) == 1) mine.of.post_batch();
    }
  };

 public:
  queued(unsigned workers, documents& all) : all_(all), pool_({.workers = workers}) {
    for (std::size_t each = 0; each < batch_size; ++each) tasks_.emplace_back(*this, each);
  }

  void decode(std::size_t batches) {
    left_ = batches;
    post_batch();
    ended_.take();
  }

 private:
  void post_batch() noexcept {
    if (left_ == 0) return ended_.give();
    --left_;
    running_.store(batch_size);
    for (task& each : tasks_) pool_.post(each);
  }

  documents& all_;
  std::deque<task> tasks_;
  std::size_t left_ = 0;  // batches
  std::atomic<std::size_t> running_{0};
  answer ended_;
  pool pool_;
};

/// The same by asio::post().
template <class Pool>
class posted {
 public:
  posted(unsigned workers, documents& all) : all_(all), pool_(workers) {}

  void decode(std::size_t batches) {
    asio::post(pool_, [this, batches] { post_batch(batches); });
    ended_.take();
  }

 private:
  void post_batch(std::size_t left) {
    if (left == 0) return ended_.give();
    running_.store(batch_size);
    for (std::size_t each = 0; each < batch_size; ++each) {
      asio::post(pool_, [this, each, left] {
        all_.decode(each);
        if (running_.fetch_sub(1) == 1) post_batch(left - 1);
      });
    }
  }

  documents& all_;
  std::atomic<std::size_t> running_{0};
  answer ended_;
  Pool pool_;
};

/// Documents are forked, and run in LIFO order.
class forked {
 public:
  forked(unsigned workers, documents& all) : all_(all), pool_({.workers = workers}) {}

  void decode(std::size_t batches) {
    sync_wait(pool_, [&] {
      task_group group(pool_);
      decode_in(group, batches, all_);
    });
  }

 private:
  documents& all_;
  pool pool_;
};

}  // namespace
}  // namespace bwos::bench

int main(int count, char** arguments) {
  using namespace bwos::bench;
  register_side<queued>("fifo");
  register_side<posted<bwos::thread_pool>>("asio_on_bwos");
  register_side<forked>("lifo");
  register_side<posted<asio::thread_pool>>("asio");
  return run_benchmarks(count, arguments);
}
