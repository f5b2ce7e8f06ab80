// SPDX-License-Identifier: Apache-2.0
// Question: what does it cost to post a task and have it run, on 2 workers, natively (continuations
// that exist already), by asio::post on bwos::thread_pool, and by asio::post on asio::thread_pool?
// Expected, against the last: native 6 times as fast in a tree of tasks that post two each, 2.5
// times in a chain; asio::post on ours 4 times in the tree; both twice from outside; a round trip
// to a parked pool no slower. `run.py post` runs this in rounds, beside oneTBB and Tokio where
// those are there, and says which of these is refuted.
#include <bwos/asio.hpp>
#include <bwos/continuation.hpp>
#include <bwos/pool.hpp>
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <memory>
#include <thread>
#include <type_traits>

#include "native_question.hpp"
#include "post_cases.hpp"

namespace bwos::bench {
namespace {

template <class Shape>
class native_side {
  struct task : bwos::continuation {
    task() noexcept : continuation(&run) {}
    native_side* side = nullptr;
  };

 public:
  native_side() : pool_({.workers = workers}), tasks_(std::make_unique<task[]>(Shape::count())) {
    for (std::size_t i = 0; i < Shape::count(); ++i) tasks_[i].side = this;
  }
  void post_from_outside(std::size_t count) noexcept {
    for (std::size_t i = 0; i < count; ++i) post(i);
  }
  void join() { pool_.join(); }

 private:
  static void run(bwos::continuation& self, bwos::continuation::disposition) noexcept {
    auto& mine = static_cast<task&>(self);
    native_side& side = *mine.side;
    ran_here::count();
    Shape::work();
    const auto [first, last] = Shape::of(static_cast<std::size_t>(&mine - side.tasks_.get()));
    for (std::size_t i = first; i < last; ++i) side.post(i);
  }

  void post(std::size_t index) noexcept { pool_.post(tasks_[index]); }

  bwos::pool pool_;
  std::unique_ptr<task[]> tasks_;
};

template <class Pool, class Shape>
class asio_side {
 public:
  void post_from_outside(std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) post(i);
  }
  void join() { pool_.join(); }

 private:
  void post(std::size_t index) {
    asio::post(pool_.get_executor(), [this, index] {
      ran_here::count();
      Shape::work();
      const auto [first, last] = Shape::of(index);
      for (std::size_t i = first; i < last; ++i) post(i);
    });
  }

  Pool pool_{workers};
};

struct question_to_two : native_question {
  question_to_two() : native_question({.workers = workers}) {}
};

template <class Pool>
class asio_question {
 public:
  ~asio_question() { pool_.join(); }
  void ask() {
    asio::post(pool_, [this] { reply.give(); });
  }
  void until_parked() {
    if constexpr (std::is_same_v<Pool, bwos::thread_pool>) {
      while (pool_.native().statistics().parked != workers) std::this_thread::yield();
    }
  }
  answer reply;

 private:
  Pool pool_{workers};
};

template <class Shape>
using on_asio = asio_side<asio::thread_pool, Shape>;
template <class Shape>
using on_ours = asio_side<bwos::thread_pool, Shape>;

}  // namespace
}  // namespace bwos::bench

/// A number behind the words, as in "native tree 4", is that of the workers.
int main(int count, char** arguments) {
  using namespace bwos::bench;
  if (const int given = count > 1 ? std::atoi(arguments[count - 1]) : 0; given > 0) {
    workers = static_cast<unsigned>(given);
    --count;
  }
  register_side<native_side, question_to_two>("native");
  register_side<on_ours, asio_question<bwos::thread_pool>>("asio_on_bwos");
  register_side<on_asio, asio_question<asio::thread_pool>>("asio");
  return run_benchmarks(count, arguments);
}
