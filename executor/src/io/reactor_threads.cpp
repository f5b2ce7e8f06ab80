// SPDX-License-Identifier: Apache-2.0
#include "io/reactor_threads.hpp"

#include <pthread.h>

#include <string>

#include "io/io_host.hpp"
#include "io/reactor.hpp"

namespace bwos {

void reactor_threads::start() {
  for (reactor* const mine : to_.homes()) {
    threads_.emplace_back([this, mine]() noexcept { run(*mine); });
    const std::string name = "bwos-io-" + std::to_string(threads_.size() - 1);
    ::pthread_setname_np(threads_.back().native_handle(), name.c_str());
  }
}

void reactor_threads::run(reactor& mine) noexcept {
  if (!to_.reactor_thread_begins()) return;
  mine.start();
  // [reactor_threads.stopping] relaxed: the wake that follows the store makes for another look, and
  // the joiner orders the rest. Partner: [reactor_threads.stop].
  while (!stopping_.load(std::memory_order_relaxed)) {
    continuation_chain ready;
    mine.wait(ready);
    if (!ready.empty()) to_.deliver(ready);
  }
  to_.reactor_thread_left();
}

void reactor_threads::stop() noexcept {
  // [reactor_threads.stop] relaxed: as above; the wake is a system call on either side. Partner:
  // [reactor_threads.stopping].
  stopping_.store(true, std::memory_order_relaxed);
  for (reactor* const each : to_.homes()) each->wake();
}

void reactor_threads::join() {
  for (std::thread& each : threads_) each.join();
  threads_.clear();
}

}  // namespace bwos
