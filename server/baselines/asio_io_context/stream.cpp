// SPDX-License-Identifier: Apache-2.0
#include "baselines/asio_io_context/stream.hpp"

#include <asio/error.hpp>
#include <new>

namespace bwos::server::asio_sockets {

socket_state::socket_state(io_context_executor& where, tcp_socket socket)
    : where_(where),
      alone_(where.one_thread()),
      socket_(std::move(socket)),
      timer_(where.context()) {}

std::unique_lock<std::mutex> socket_state::guard() {
  return alone_ ? std::unique_lock<std::mutex>() : std::unique_lock(lock_);
}

/// `start` starts the operation, and nothing behind it throws: the coroutine cannot take an
/// exception and the end of the operation both. Its handler, and what that resumes, may run
/// elsewhere at once, but waits for the lock first: until it is released all this is alive.
template <class Start>
void socket_state::begin(wait_for what, Start start) {
  const auto locked = guard();
  if (deadline_ < armed_for_) arm();
  start();
  waiting_ = what;
  if (interrupted_ && what == wait_for::bytes) cancel();
}

void socket_state::cancel() noexcept {
  std::error_code ignored;
  static_cast<void>(socket_.cancel(ignored));
}

std::error_code socket_state::end(std::error_code error) noexcept {
  const auto locked = guard();
  const wait_for what = std::exchange(waiting_, wait_for::nothing);
  if (error != asio::error::operation_aborted) return error;
  if (what == wait_for::bytes && std::exchange(interrupted_, false))
    return std::make_error_code(std::errc::operation_canceled);
  return std::make_error_code(std::errc::timed_out);
}

received socket_state::end_receive(std::error_code error, std::size_t bytes) noexcept {
  error = end(error);
  if (error == asio::error::eof) return {};
  return {.bytes = into_.first(bytes), .error = error};
}

sent socket_state::end_send(std::error_code error, std::size_t bytes) noexcept {
  return {.bytes = bytes, .error = end(error)};
}

/// Under the lock.
void socket_state::arm() {
  timer_.expires_at(deadline_);
  timer_.async_wait([self = shared_from_this()](std::error_code error) {
    if (!error) self->on_timer();
  });
  armed_for_ = deadline_;
}

void socket_state::on_timer() noexcept {
  const auto locked = guard();
  const clock::time_point now = clock::now();
  if (closed_ || now < armed_for_) return;  // it has been armed anew meanwhile
  armed_for_ = clock::time_point::max();
  if (waiting_ == wait_for::nothing) return;  // the next wait arms it
  if (now >= deadline_) return cancel();
  try {
    arm();
  } catch (const std::bad_alloc&) {  // without a timer it could wait for ever: it ends
    cancel();
  }
}

void socket_state::interrupt() noexcept {
  const auto locked = guard();
  if (closed_) return;
  interrupted_ = true;
  if (waiting_ == wait_for::bytes) cancel();
}

void socket_state::close() noexcept {
  const auto locked = guard();
  closed_ = true;
  timer_.cancel();
  std::error_code ignored;
  static_cast<void>(socket_.close(ignored));
}

/// Into the connection's own buffer, if not elsewhere. To wait for readiness first (async_wait)
/// would spare the buffer, and the read that finds nothing; but then Asio tells epoll anew each
/// time, and a request costs 4 % more (measured).
awaitable<received> stream::receive(receive_room room) {
  state_->into_ = room.into.empty() ? std::span(state_->buffer_) : room.into;
  return asio::async_initiate<decltype(use_awaitable), void(received)>(
      [state = state_.get()]<class Handler>(Handler handler) {
        state->begin(socket_state::wait_for::bytes, [&] {
          state->socket_.async_read_some(asio::buffer(state->into_.data(), state->into_.size()),
                                         socket_state::on_end<&socket_state::end_receive, Handler>{
                                             *state, std::move(handler)});
        });
      },
      use_awaitable);
}

awaitable<sent> stream::send_some(std::span<const std::byte> bytes) {
  return asio::async_initiate<decltype(use_awaitable), void(sent)>(
      [state = state_.get(), bytes]<class Handler>(Handler handler) {
        state->begin(socket_state::wait_for::room, [&] {
          state->socket_.async_write_some(
              asio::buffer(bytes.data(), bytes.size()),
              socket_state::on_end<&socket_state::end_send, Handler>{*state, std::move(handler)});
        });
      },
      use_awaitable);
}

awaitable<sent> stream::send(std::span<const std::byte> bytes) {
  sent all;
  while (all.bytes < bytes.size() && !all.error) {
    const sent some = co_await send_some(bytes.subspan(all.bytes));
    all.bytes += some.bytes;
    all.error = some.error;
  }
  co_return all;
}

sent stream::try_send(std::span<const std::byte> bytes,
                      std::span<const std::byte> behind) noexcept {
  sent result;
  const auto first = asio::buffer(bytes.data(), bytes.size());
  if (behind.empty()) {
    result.bytes = state_->socket_.write_some(first, result.error);
  } else {
    const std::array both{first, asio::buffer(behind.data(), behind.size())};
    result.bytes = state_->socket_.write_some(both, result.error);
  }
  if (result.error == asio::error::would_block) result.error = {};
  return result;
}

void stream::shutdown_send() noexcept {
  std::error_code ignored;
  static_cast<void>(state_->socket_.shutdown(asio::socket_base::shutdown_send, ignored));
}

void stream::reset_on_close() noexcept {
  std::error_code ignored;
  static_cast<void>(state_->socket_.set_option(asio::socket_base::linger(true, 0), ignored));
}

}  // namespace bwos::server::asio_sockets
