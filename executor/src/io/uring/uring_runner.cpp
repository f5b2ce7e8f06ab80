// SPDX-License-Identifier: Apache-2.0
// The side of uring_reactor that a socket's runner calls, on whichever worker runs it.
#include <sys/socket.h>
#include <unistd.h>

#include <utility>

#include "base/system_call.hpp"
#include "io/uring/uring_reactor.hpp"
#include "io/worker_context.hpp"

namespace bwos {

bool uring_reactor::on_own_thread() const noexcept {
  const worker_context* const here = current_worker();
  return here != nullptr && here->home == this;
}

void uring_reactor::request(uring_descriptor& socket, std::uint32_t what) noexcept {
  const bool first = mail_.post(socket, what);
  if (on_own_thread()) {
    read_mail();
  } else if (first) {
    wake();
  }
}

void uring_reactor::give_back(chunk& each) noexcept {
  if (on_own_thread()) {
    buffers_.add(each);
  } else {
    buffers_.give_back(each);
  }
}

void uring_reactor::give_back_current(uring_descriptor& socket) noexcept {
  if (chunk* const current = std::exchange(socket.runner.current, nullptr)) give_back(*current);
}

void uring_reactor::close(descriptor& closing) noexcept {
  auto& socket = static_cast<uring_descriptor&>(closing);
  end_deadline(socket);
  give_back_current(socket);
  while (chunk* const each = socket.runner.rest) {
    socket.runner.rest = each->next;
    if (each->what == chunk::kind::data) give_back(*each);
  }
  // The ring keeps the socket a little longer, but nobody may connect to it any more; unless others
  // have it, for whom that would be its end.
  if (socket.kernel.listening && !socket.is_shared) ::shutdown(socket.fd, SHUT_RD);
  request(socket, uring_descriptor::close);
}

bool uring_reactor::receive(descriptor& from, const receive_room& room, received& result) noexcept {
  auto& socket = static_cast<uring_descriptor&>(from);
  auto& runner = socket.runner;
  socket.more = false;
  give_back_current(socket);
  if (runner.rest == nullptr) {
    // Consumed here and only here: a notification means that there is something to take.
    constexpr std::uint32_t ready = descriptor::readable | descriptor::hangup;
    if ((socket.look() & ready) != 0) socket.consume(ready);
    runner.rest = socket.take();
  }
  if (chunk* const next = runner.rest) {
    runner.rest = next->next;
    if (next->what == chunk::kind::data) {
      socket.count_taken();
      runner.current = next;
      socket.more = runner.rest != nullptr;
      result.bytes = buffers_.bytes(*next);
      return true;
    }
    runner.by_itself = next->what == chunk::kind::paused;
    runner.ended = !runner.by_itself;
    runner.error = next->error;
  }
  if (runner.by_itself) return receive_by_itself(socket, room, result);
  if (runner.ended) report_end(socket, result);
  return runner.ended;
}

/// Until a short read has emptied the socket; then the kernel receives again.
bool uring_reactor::receive_by_itself(uring_descriptor& socket, const receive_room& room,
                                      received& result) noexcept {
  const std::span<std::byte> into = bytes_for(room);
  const long got = system_call::receive(socket.fd, into.data(), into.size());
  socket.more = got == static_cast<long>(into.size());
  if (socket.more) {
    result.bytes = into;
    return true;
  }
  socket.runner.by_itself = false;
  if (got > 0 || got == -EAGAIN) {
    request(socket, uring_descriptor::receive);
    if (got > 0) result.bytes = into.first(static_cast<std::size_t>(got));
    return got > 0;
  }
  socket.runner.ended = true;
  socket.runner.error = static_cast<int>(-got);
  report_end(socket, result);
  return true;
}

void uring_reactor::report_end(uring_descriptor& socket, received& result) noexcept {
  socket.more = true;  // it stays so
  if (socket.runner.error != 0) result.error = {socket.runner.error, std::system_category()};
}

bool uring_reactor::wait(descriptor& waiting, std::uint32_t direction,
                         continuation& work) noexcept {
  auto& socket = static_cast<uring_descriptor&>(waiting);
  if (direction == descriptor::waiting_in) {
    give_back_current(socket);  // an idle connection keeps none
  } else {
    // Before the wait, which may be over, and the socket closed, as soon as it has begun.
    request(socket, uring_descriptor::watch_send);
  }
  return socket.wait(direction, work);
}

}  // namespace bwos
