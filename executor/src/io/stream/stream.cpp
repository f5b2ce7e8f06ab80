// SPDX-License-Identifier: Apache-2.0
#include <bwos/stream.hpp>

#include "base/system_call.hpp"
#include "io/reactor.hpp"

namespace bwos {

stream& stream::operator=(stream&& other) noexcept {
  if (this != &other) {
    close();
    descriptor_ = std::exchange(other.descriptor_, nullptr);
  }
  return *this;
}

void stream::close() noexcept {
  if (descriptor* const closing = std::exchange(descriptor_, nullptr))
    closing->home.close(*closing);
}

continuation* stream_waker::interrupt() const noexcept {
  return descriptor_ != nullptr ? descriptor_->notify(descriptor::interrupted) : nullptr;
}

int stream::native_handle() const noexcept {
  return descriptor_->fd;
}

void stream::deadline(clock::time_point when) noexcept {
  descriptor_->store_idle_since(wheel::never);
  descriptor_->home.set_deadline(*descriptor_, wheel::due_tick(when));
}

void stream::no_deadline() noexcept {
  descriptor_->store_idle_since(wheel::never);
  descriptor_->home.set_deadline(*descriptor_, wheel::never);
}

void stream::idle(clock::time_point since, clock::time_point until) noexcept {
  descriptor_->store_idle_since(wheel::now_tick(since));
  descriptor_->home.set_deadline(*descriptor_, wheel::due_tick(until));
}

void stream::shutdown_send() noexcept {
  ::shutdown(descriptor_->fd, SHUT_WR);
}

void stream::reset_on_close() noexcept {
  const linger at_once{.l_onoff = 1, .l_linger = 0};
  ::setsockopt(descriptor_->fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
}

namespace {

/// Which are only read.
iovec part_of(std::span<const std::byte> bytes) noexcept {
  return {.iov_base = const_cast<std::byte*>(bytes.data()), .iov_len = bytes.size()};
}

}  // namespace

sent stream::try_send(std::span<const std::byte> bytes,
                      std::span<const std::byte> behind) noexcept {
  const int fd = descriptor_->fd;
  const long taken = behind.empty() ? system_call::send(fd, bytes.data(), bytes.size())
                                    : system_call::send(fd, part_of(bytes), part_of(behind));
  if (taken >= 0) return {.bytes = static_cast<std::size_t>(taken), .error = {}};
  if (taken == -EAGAIN) return {};
  return {.bytes = 0, .error = {static_cast<int>(-taken), std::system_category()}};
}

// Receiving.

bool stream::receive_operation::await_ready() noexcept {
  return attempt(false);
}

/// True: result_ is there. `notified`: a wait has just ended, so the socket is owed a look though
/// its bit was consumed by that; where something else comes first, the next receive owes it.
bool stream::receive_operation::attempt(bool notified) noexcept {
  socket_->more |= notified;
  const std::uint32_t seen = socket_->look();
  if ((seen & descriptor::interrupted) != 0) {
    socket_->consume(descriptor::interrupted);
    result_.error = std::make_error_code(std::errc::operation_canceled);
    return true;
  }
  // Before the deadline: bytes that came in time, to workers that had none, are not late.
  constexpr std::uint32_t ready = descriptor::readable | descriptor::hangup;
  if ((socket_->more || (seen & ready) != 0) && socket_->home.receive(*socket_, room_, result_)) {
    if ((seen & descriptor::unwanted) != 0) [[unlikely]]
      socket_->consume(descriptor::unwanted);
    return true;
  }
  if ((seen & descriptor::unwanted) != 0) [[unlikely]] {
    socket_->consume(descriptor::unwanted);
    result_.error = std::make_error_code(std::errc::connection_aborted);
    return true;
  }
  if ((seen & descriptor::expired) != 0 && socket_->home.deadline_passed(*socket_)) {
    result_.error = std::make_error_code(std::errc::timed_out);
    return true;
  }
  return false;
}

/// True: suspended, and perhaps resumed elsewhere already.
bool stream::receive_operation::suspend() noexcept {
  for (;;) {  // ends: every turn consumes what has ended the wait
    if (socket_->home.wait(*socket_, descriptor::waiting_in, *this)) return true;
    if (attempt(false)) return false;
  }
}

void stream::receive_operation::on_ready(continuation& self, disposition how) noexcept {
  auto& operation = static_cast<receive_operation&>(self);
  if (how == disposition::run && !operation.attempt(true) && operation.suspend()) return;
  operation.finish(how);
}

// Sending.

/// True: result_ is there.
bool stream::send_operation::attempt() noexcept {
  bool fresh = false;  // the socket was full after `writable` had been consumed: only a new
                       // notification helps
  while (!rest_.empty()) {
    const long taken = system_call::send(socket_->fd, rest_.data(), rest_.size());
    if (taken >= 0) {
      rest_ = rest_.subspan(static_cast<std::size_t>(taken));
      result_.bytes += static_cast<std::size_t>(taken);
    } else if (taken != -EAGAIN) {
      result_.error = {static_cast<int>(-taken), std::system_category()};
      return true;
    } else if (!fresh) {
      socket_->consume(descriptor::writable);
      fresh = true;
    } else {
      return false;
    }
  }
  return true;
}

bool stream::send_operation::suspend() noexcept {
  for (;;) {  // ends: every turn consumes what has ended the wait
    if (socket_->home.wait(*socket_, descriptor::waiting_out, *this)) return true;
    if ((socket_->look() & descriptor::expired) != 0 && socket_->home.deadline_passed(*socket_)) {
      result_.error = std::make_error_code(std::errc::timed_out);
      return false;
    }
    if (attempt()) return false;
  }
}

void stream::send_operation::on_ready(continuation& self, disposition how) noexcept {
  auto& operation = static_cast<send_operation&>(self);
  if (how == disposition::run && !operation.attempt() && operation.suspend()) return;
  operation.finish(how);
}

}  // namespace bwos
