// SPDX-License-Identifier: Apache-2.0

#include <bwos/io_threads.hpp>
#include <mutex>
#include <stdexcept>
#include <utility>

#include "base/mutex.hpp"
#include "base/system_call.hpp"
#include "io/factory.hpp"
#include "io/io_host.hpp"
#include "io/reactor_threads.hpp"
#include "io/worker_context.hpp"

namespace bwos {
namespace {

/// What a thread of the executor lends to what it runs.
struct guest_context : worker_context {
  std::unique_ptr<std::byte[]> memory;
};

[[gnu::noinline]] guest_context& this_guest() {
  thread_local guest_context mine;
  return mine;
}

/// Whoever wants to know the age of a queue asks a pool.
options without_age(options settings) {
  settings.queue_age_interval = {};
  return settings;
}

/// What the reactor threads have found and the executor has not taken yet. It is posted itself,
/// while it is not empty.
class batch_queue : public continuation {
 public:
  batch_queue(io_threads::post_function post, void* executor) noexcept
      : continuation(&hand_on), post_(post), executor_(executor) {}

  /// True: it was empty, and must be posted.
  [[nodiscard]] bool push(const continuation_chain& batch) noexcept {
    const std::lock_guard guard(lock_);
    const bool was_empty = waiting_.empty();
    waiting_.append(batch);
    return was_empty;
  }

 private:
  static void hand_on(continuation& self, disposition how) noexcept {
    auto& mine = static_cast<batch_queue&>(self);
    continuation_chain taken = mine.take();  // from now on it may be posted again
    while (continuation* const work = taken.take_first()) {
      if (how == disposition::run) {
        mine.post_(mine.executor_, *work);
      } else {
        work->invoke(*work, how);
      }
    }
  }
  continuation_chain take() noexcept {
    const std::lock_guard guard(lock_);
    return std::exchange(waiting_, {});
  }

  const io_threads::post_function post_;
  void* const executor_;
  mutex lock_;
  continuation_chain waiting_;
};

}  // namespace

class io_threads::core final : public io_host {
 public:
  core(const options& settings, post_function post, void* executor)
      : settings_(without_age(settings)),
        choice_(choose_reactor(settings.reactor)),
        post_(post),
        executor_(executor),
        batches_(post, executor) {
    for (unsigned i = 0; i < settings.reactor_threads; ++i) {
      reactors_.push_back(make_reactor(choice_.kind, false, settings_));
      homes_.push_back(reactors_.back().get());
    }
    try {
      threads_.start();
    } catch (...) {
      stop();
      throw;
    }
  }
  ~core() {
    stop();
    discard_all();
  }
  core(const core&) = delete;
  core& operator=(const core&) = delete;

  void post(continuation& work) noexcept override {
    if (ended_) {
      late_.append(work);
    } else {
      post_(executor_, work);
    }
  }
  /// One post for all of it, and none while the last is on its way: each may wake a thread, and one
  /// that shares a processor with this would run at once, for a single continuation. Those threads
  /// go first, so that the next batch is larger. Measured with asio::thread_pool, CPU of a request
  /// against a post for each without the yield, 64 and 256 connections: one worker, all on one
  /// core, 0.74 and 0.75; two workers and cores 0.93 and 0.94.
  void deliver(continuation_chain ready) noexcept override {
    if (batches_.push(ready)) post_(executor_, batches_);
    system_call::yield_processor();
  }
  // Nobody waits for the end of all work here.
  void work_started() noexcept override {}
  void work_finished() noexcept override {}

  void run(continuation& work) noexcept {
    guest_context& here = this_guest();
    if (here.scratch.size() < settings_.receive_bytes) [[unlikely]] {
      here.memory = std::make_unique_for_overwrite<std::byte[]>(settings_.receive_bytes);
      here.scratch = {here.memory.get(), settings_.receive_bytes};
    }
    here.timers = &homes_.front()->timers;
    worker_context* const outer = set_current_worker(&here);
    if (outer != &here) here.outer = outer;
    work.invoke(work, continuation::disposition::run);
    set_current_worker(outer);
  }

  void stop() {
    threads_.stop();
    threads_.join();
  }

  [[nodiscard]] const reactor_choice& choice() const noexcept { return choice_; }

 private:
  /// On one thread, all others have ended.
  void discard_all() noexcept {
    ended_ = true;
    for (;;) {  // ends: what is discarded frees, and posts at most what frees the rest of itself
      continuation_chain rest = std::exchange(late_, {});
      for (const auto& each : reactors_) each->drain(rest);
      if (rest.empty() && !end_residents()) return;
      rest.discard_all();
    }
  }

  const options settings_;
  const reactor_choice choice_;
  const post_function post_;
  void* const executor_;
  batch_queue batches_;
  std::vector<std::unique_ptr<reactor>> reactors_;
  reactor_threads threads_{*this};
  bool ended_ = false;
  continuation_chain late_;
};

io_threads::io_threads(const options& settings, post_function post, void* executor) {
  settings.validate();
  if (settings.reactor_threads == 0)
    throw std::invalid_argument(
        "bwos::io_threads: options::reactor_threads is 0, must be 1 or more");
  core_ = std::make_unique<core>(settings, post, executor);
}
io_threads::~io_threads() = default;
void io_threads::run(continuation& work) noexcept {
  core_->run(work);
}
void io_threads::stop() {
  core_->stop();
}
const reactor_choice& io_threads::choice() const noexcept {
  return core_->choice();
}
io_host& io_threads::host() noexcept {
  return *core_;
}

}  // namespace bwos
