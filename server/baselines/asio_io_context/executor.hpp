// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <asio/awaitable.hpp>
#include <asio/executor_work_guard.hpp>
#include <asio/io_context.hpp>
#include <asio/thread_pool.hpp>
#include <asio/use_awaitable.hpp>
#include <atomic>
#include <cstdint>
#include <optional>
#include <thread>
#include <vector>

#include "net/executor.hpp"

namespace bwos::server::asio_sockets {

/// Coroutines as Asio's users write them: asio::awaitable. Measured (one thread, /plaintext, 64 and
/// 256 connections): 1.02 and 1.01 times the CPU of loadtest/peers/asio_coro, which parses next to
/// nothing. The C library alone makes 1.016: its recv and send cost more where a process has a
/// second thread, even an idle one. The executor by its own type: the default, any_io_executor,
/// would be asked at every step what it is.
using io_executor = asio::io_context::executor_type;
template <class T>
using awaitable = asio::awaitable<T, io_executor>;
inline constexpr asio::use_awaitable_t<io_executor> use_awaitable;

/// An io_context run by threads of its own; and those of its lane, if it has one.
class io_context_executor final : public executor {
 public:
  io_context_executor(unsigned workers, bool with_lane);
  ~io_context_executor();

  void post(continuation& work) noexcept override;
  void yield(continuation& work) noexcept override { post(work); }
  void post_long(continuation& work, lane_entry& place) noexcept override;
  /// Asio does not tell.
  [[nodiscard]] bool has_idle() const noexcept override { return false; }

  /// The coroutine goes on behind what is ready.
  static awaitable<void> yield();
  /// The coroutine goes on in the lane, until it next waits for anything.
  awaitable<void> lane();

  [[nodiscard]] asio::io_context& context() noexcept { return context_; }
  /// One thread runs everything that touches a connection.
  [[nodiscard]] bool one_thread() const noexcept { return threads_count_ == 1 && !lane_; }
  /// Requests that the lane has taken; none where there is no lane.
  [[nodiscard]] std::optional<std::uint64_t> lane_run() const noexcept;

  /// The threads end after what they are running. Not from one of them.
  void stop();

 private:
  const unsigned threads_count_;
  asio::io_context context_;
  std::optional<asio::thread_pool> lane_;  // dies before the sockets' context
  std::atomic<std::uint64_t> lane_run_{0};
  asio::executor_work_guard<io_executor> busy_;
  std::vector<std::thread> threads_;
};

}  // namespace bwos::server::asio_sockets
