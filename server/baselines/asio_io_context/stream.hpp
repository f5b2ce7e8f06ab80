// SPDX-License-Identifier: Apache-2.0
// A socket of Asio's with the members of bwos::stream.
//
// A connection waits for one operation at a time, so it needs no strand. Two others may want to end
// that wait from threads of their own: its timer, and a drain. Sockets and timers of Asio are no
// objects to be used by two threads at once, hence
//
// INVARIANTS
// S1  While the connection waits (waiting_ is not `nothing`), from before the operation is started
//     until its handler has begun, the socket is used under lock_ only. At other times only the
//     connection's coroutine uses it, and without lock_.
// S2  deadline_ is written by the coroutine, while it does not wait, and read under lock_ while it
//     does: starting a wait hands it over, as do all members below.
// S3  While the connection waits, the timer is armed for deadline_ or earlier. A deadline moves
//     later with every request, the timer only when it goes off: then it is armed anew, or ends the
//     wait. One that moves earlier arms it anew where the next wait begins.
// S4  Who ends a wait cancels the operation, and notes nothing: its handler finds out why. Where
//     the operation was over already, the next wait meets the reason again (S3, interrupted_).
//
// Where a single thread runs everything, lock_ is left out; a drain then comes as a handler.
#pragma once

#include <array>
#include <asio/associated_allocator.hpp>
#include <asio/associated_executor.hpp>
#include <asio/async_result.hpp>
#include <asio/basic_stream_socket.hpp>
#include <asio/basic_waitable_timer.hpp>
#include <asio/buffer.hpp>
#include <asio/ip/tcp.hpp>
#include <bwos/stream.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <system_error>
#include <utility>

#include "baselines/asio_io_context/executor.hpp"
#include "net/connection.hpp"

namespace bwos::server::asio_sockets {

using tcp_socket = asio::basic_stream_socket<asio::ip::tcp, io_executor>;
using clock = std::chrono::steady_clock;

/// Bytes received at once, as loadtest/peers/asio_coro does. A buffer of each connection's own.
inline constexpr std::size_t receive_bytes = 16 * 1024;

/// A connection's socket, and what its coroutine shares with its timer and with a drain.
class socket_state : public std::enable_shared_from_this<socket_state> {
 public:
  socket_state(io_context_executor& where, tcp_socket socket);

  /// Ends the pending receive, or else the next one. Any thread; where a single one runs
  /// everything, from that.
  void interrupt() noexcept;

 private:
  friend class stream;
  enum class wait_for : std::uint8_t { nothing, bytes, room };

  template <auto Take, class Handler>
  struct on_end;

  [[nodiscard]] std::unique_lock<std::mutex> guard();
  template <class Start>
  void begin(wait_for what, Start start);
  received end_receive(std::error_code error, std::size_t bytes) noexcept;
  sent end_send(std::error_code error, std::size_t bytes) noexcept;
  std::error_code end(std::error_code error) noexcept;
  void arm();
  void on_timer() noexcept;
  void cancel() noexcept;
  void close() noexcept;

  io_context_executor& where_;
  const bool alone_;  // on one thread: lock_ is left out
  std::mutex lock_;
  tcp_socket socket_;
  asio::basic_waitable_timer<clock, asio::wait_traits<clock>, io_executor> timer_;
  clock::time_point deadline_ = clock::time_point::max();
  clock::time_point armed_for_ = clock::time_point::max();
  wait_for waiting_ = wait_for::nothing;
  bool interrupted_ = false;
  bool closed_ = false;
  std::span<std::byte> into_;  // of the receive at hand
  std::array<std::byte, receive_bytes> buffer_;
};

/// Handler of an operation: ends the wait, and hands on what it gave.
template <auto Take, class Handler>
struct socket_state::on_end {
  using executor_type = asio::associated_executor_t<Handler>;
  using allocator_type = asio::associated_allocator_t<Handler>;

  [[nodiscard]] executor_type get_executor() const noexcept {
    return asio::get_associated_executor(handler);
  }
  [[nodiscard]] allocator_type get_allocator() const noexcept {
    return asio::get_associated_allocator(handler);
  }
  void operator()(std::error_code error, std::size_t bytes) {
    std::move(handler)((state.*Take)(error, bytes));
  }

  socket_state& state;
  Handler handler;
};

/// The members of bwos::stream (bwos/stream.hpp says what they do), and lane().
class stream final : public socket {
 public:
  explicit stream(std::shared_ptr<socket_state> state) noexcept : state_(std::move(state)) {}
  stream(stream&&) noexcept = default;
  stream& operator=(stream&&) = delete;
  ~stream() {
    if (state_) state_->close();
  }

  awaitable<received> receive(receive_room room = {});
  awaitable<sent> send(std::span<const std::byte> bytes);
  sent try_send(std::span<const std::byte> bytes,
                std::span<const std::byte> behind) noexcept override;
  void deadline(clock::time_point when) noexcept override { state_->deadline_ = when; }
  /// Whose listener makes no room.
  void idle(clock::time_point /*since*/, clock::time_point until) noexcept override {
    deadline(until);
  }
  void shutdown_send() noexcept;
  void reset_on_close() noexcept override;
  [[nodiscard]] std::optional<stream_waker> waker() const noexcept override { return {}; }
  awaitable<void> lane() { return state_->where_.lane(); }
  [[nodiscard]] int native_handle() const noexcept override {
    return state_->socket_.native_handle();
  }

 private:
  awaitable<sent> send_some(std::span<const std::byte> bytes);

  std::shared_ptr<socket_state> state_;
};

}  // namespace bwos::server::asio_sockets
