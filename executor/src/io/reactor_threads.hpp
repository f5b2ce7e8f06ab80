// SPDX-License-Identifier: Apache-2.0
// Dedicated reactor threads: each waits in a reactor of its own and hands what is ready to the
// host, a batch at a time. They run no continuation themselves.
#pragma once

#include <thread>
#include <vector>

#include <bwos/base/atomic.hpp>

namespace bwos {

class io_host;
class reactor;

class reactor_threads {
 public:
  explicit reactor_threads(io_host& to) noexcept : to_(to) {}
  /// They have been joined, or never started.
  ~reactor_threads() = default;
  reactor_threads(const reactor_threads&) = delete;
  reactor_threads& operator=(const reactor_threads&) = delete;

  /// One for each of the host's reactors. Throws std::system_error; those that run already are
  /// stopped and joined as always.
  void start();
  /// Any thread: they leave after the batch at hand.
  void stop() noexcept;
  void join();

 private:
  void run(reactor& mine) noexcept;

  io_host& to_;
  atomic<bool> stopping_{false};
  std::vector<std::thread> threads_;
};

}  // namespace bwos
