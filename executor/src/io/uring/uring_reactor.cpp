// SPDX-License-Identifier: Apache-2.0
// The side of uring_reactor that the ring's thread runs; uring_runner.cpp is the other.
#include "io/uring/uring_reactor.hpp"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <system_error>

#include "base/check.hpp"

namespace bwos {
namespace {

/// What a completion is of: the low bits of its user data; the rest is the descriptor, if any.
enum operation : std::uint64_t {
  receiving,
  listening,
  watching_send,
  watching_reset,
  cancelling,
  waking,
  timing
};
constexpr std::uint64_t operation_mask = 7;
static_assert(alignof(uring_descriptor) > operation_mask);

std::uint64_t tagged(const uring_descriptor& socket, operation what) noexcept {
  return reinterpret_cast<std::uintptr_t>(&socket) | what;
}

uring_descriptor& socket_of(const io_uring_cqe& done) noexcept {
  return *reinterpret_cast<uring_descriptor*>(
      static_cast<std::uintptr_t>(done.user_data & ~operation_mask));
}

bool is_last(const io_uring_cqe& done) noexcept {
  return (done.flags & IORING_CQE_F_MORE) == 0;
}

int checked(int fd, const char* call) {
  if (fd < 0) throw std::system_error(errno, std::system_category(), call);
  return fd;
}

/// The kernel has stopped receiving for its own reasons, not the connection's.
bool is_pause(int result) noexcept {
  switch (-result) {
    case ENOBUFS:    // no buffer left
    case ECANCELED:  // as asked
    case EINTR:
    case EAGAIN:
      return true;
    default:
      return result > 0;  // data, and no room for the completion that would have gone on
  }
}

}  // namespace

uring_reactor::uring_reactor(const options& settings)
    : uring_reactor(settings, checked(::timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC),
                                      "timerfd_create")) {
  buffers_.offer_to(ring_.raw());  // here, where the destructor runs if it throws
}

uring_reactor::uring_reactor(const options& settings, int timer_fd)
    : reactor(timer_fd),
      buffers_(settings.ring_buffers, settings.ring_buffer_bytes),
      ring_(settings.ring_entries),
      timer_fd_(timer_fd),
      wake_fd_(checked(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC), "eventfd")) {}

/// The pool has ended: what the kernel still has in hand ends with the ring, since nobody is left
/// in whose context it could run.
uring_reactor::~uring_reactor() {
  for_each_open([](descriptor& each) { ::close(each.fd); });
  ::close(wake_fd_);
}

std::unique_ptr<descriptor> uring_reactor::make_descriptor() {
  return std::make_unique<uring_descriptor>(*this);
}

// The ring's thread.

void uring_reactor::start() {
  BWOS_CHECK(ring_.enable() == 0);
}

/// All that is there: it is nobody else's to take.
void uring_reactor::poll(continuation_chain& sink, std::size_t) noexcept {
  prepare();
  ring_.poll();
  reap(sink);
}

bool uring_reactor::wait(continuation_chain& sink) noexcept {
  prepare();
  // A full ring that the kernel takes nothing from now has no entry for a watch, or for what is
  // left over in the mailbox, see apply(). A moment later it may take all of it, and would sleep
  // without what is missing: over a wake, over a deadline. So this sleeps only where nothing is
  // missing, and the kernel only where it has taken all (ring.hpp).
  if (mail_.empty() && wake_watched_ && timer_watched_) {
    ring_.wait();
  } else {
    ring_.poll();
  }
  ring_.back_off();
  reap(sink);
  return true;
}

/// What must be done before the kernel is entered.
void uring_reactor::prepare() noexcept {
  if (!wake_watched_) wake_watched_ = watch(wake_fd_, waking);
  if (!timer_watched_) timer_watched_ = watch(timer_fd_, timing);
  read_mail();
  buffers_.publish();
}

void uring_reactor::read_mail() noexcept {
  mail_.take_all([&](uring_descriptor& socket, std::uint32_t what) { apply(socket, what); });
}

void uring_reactor::reap(continuation_chain& sink) noexcept {
  ring_.reap([&](const io_uring_cqe& done) { complete(done, sink); });
  read_mail();  // at once, not after what was reaped has run
}

void uring_reactor::complete(const io_uring_cqe& done, continuation_chain& sink) noexcept {
  switch (done.user_data & operation_mask) {
    case receiving:
      return complete_receive(socket_of(done), done, sink);
    case listening:
      return complete_listen(socket_of(done), done, sink);
    case watching_send: {
      uring_descriptor& socket = socket_of(done);
      socket.kernel.watching_send = socket.kernel.unwatched_send = false;
      if (socket.kernel.closing) return end(socket);
      if (continuation* const work = socket.notify(descriptor::writable)) sink.append(*work);
      return;
    }
    case watching_reset:
      return complete_watch_reset(socket_of(done));
    case waking:
      if (is_last(done)) wake_watched_ = false;
      return;
    case timing:
      if (is_last(done)) timer_watched_ = false;
      return timers.advance(sink);
    default:  // a cancellation: its operation's own completion tells
      return;
  }
}

void uring_reactor::complete_receive(uring_descriptor& socket, const io_uring_cqe& done,
                                     continuation_chain& sink) noexcept {
  auto& kernel = socket.kernel;
  const bool last = is_last(done);
  if (last) kernel.receiving = kernel.cancelled = false;
  chunk* data = nullptr;
  if ((done.flags & IORING_CQE_F_BUFFER) != 0) {
    data = &buffers_.filled(static_cast<std::uint16_t>(done.flags >> IORING_CQE_BUFFER_SHIFT),
                            static_cast<std::uint32_t>(done.res < 0 ? 0 : done.res));
  }
  if (data != nullptr && (done.res <= 0 || kernel.closing)) {
    buffers_.add(*data);
    data = nullptr;
  }
  if (kernel.closing) {
    if (last) end(socket);
    return;
  }
  if (data != nullptr) {
    ++kernel.pushed;
    if (!last && !kernel.cancelled && socket.unread() > unread_max)
      kernel.cancelled = cancel(tagged(socket, receiving));
    socket.push(*data);
  }
  // Nothing but notify() after the last push: the runner may have closed it by then (U1).
  if (last)
    socket.push_last(is_pause(done.res) ? chunk::kind::paused : chunk::kind::end, -done.res);
  if (continuation* const work = socket.notify(descriptor::readable)) sink.append(*work);
}

/// The kernel's multishot goes back to waiting once the socket is empty, and has then slept over a
/// reset that came in one edge with the data (seen on Linux 6.18). Stopped, it makes the runner
/// receive by itself, which meets the reset.
void uring_reactor::complete_watch_reset(uring_descriptor& socket) noexcept {
  auto& kernel = socket.kernel;
  kernel.watching_reset = kernel.unwatched_reset = false;
  if (kernel.closing) return end(socket);
  if (kernel.receiving && !kernel.cancelled) {
    kernel.cancelled = cancel(tagged(socket, receiving));
  }
}

void uring_reactor::complete_listen(uring_descriptor& socket, const io_uring_cqe& done,
                                    continuation_chain& sink) noexcept {
  if (is_last(done)) {
    socket.kernel.receiving = socket.kernel.cancelled = false;
    if (socket.kernel.closing) return end(socket);
    apply(socket, uring_descriptor::receive);
  }
  if (continuation* const work = socket.notify(descriptor::readable)) sink.append(*work);
}

/// Does what the runner has asked for. What the ring has no entry for now is asked for again.
void uring_reactor::apply(uring_descriptor& socket, std::uint32_t what) noexcept {
  if ((what & uring_descriptor::close) != 0) socket.kernel.closing = true;
  if (socket.kernel.closing) return end(socket);
  std::uint32_t left = 0;
  if ((what & uring_descriptor::receive) != 0 && !begin_receive(socket)) {
    left |= uring_descriptor::receive;
  }
  if ((what & uring_descriptor::watch_send) != 0 && !begin_watch_send(socket)) {
    left |= uring_descriptor::watch_send;
  }
  if (left != 0) static_cast<void>(mail_.post(socket, left));
}

bool uring_reactor::begin_receive(uring_descriptor& socket) noexcept {
  auto& kernel = socket.kernel;
  if (kernel.receiving) return true;
  if (kernel.listening) {
    kernel.receiving = watch(socket.fd, tagged(socket, listening));
    return kernel.receiving;
  }
  if (!kernel.reset_watched && !begin_watch_reset(socket)) return false;
  io_uring_sqe* const entry = ring_.next_entry();
  if (entry == nullptr) return false;
  ::io_uring_prep_recv_multishot(entry, socket.fd, nullptr, 0, 0);
  // Waits for data before it asks for a buffer, so that without any buffer it fails once per
  // arrival, not at once and again.
  entry->ioprio |= IORING_RECVSEND_POLL_FIRST;
  entry->flags |= IOSQE_BUFFER_SELECT;
  entry->buf_group = buffer_ring::group;
  ::io_uring_sqe_set_data64(entry, tagged(socket, receiving));
  kernel.receiving = true;
  return true;
}

/// Once a connection: whatever is armed after a reset sees it by itself.
bool uring_reactor::begin_watch_reset(uring_descriptor& socket) noexcept {
  io_uring_sqe* const entry = ring_.next_entry();
  if (entry == nullptr) return false;
  ::io_uring_prep_poll_add(entry, socket.fd, POLLERR | POLLHUP);
  ::io_uring_sqe_set_data64(entry, tagged(socket, watching_reset));
  socket.kernel.watching_reset = socket.kernel.reset_watched = true;
  return true;
}

bool uring_reactor::begin_watch_send(uring_descriptor& socket) noexcept {
  if (socket.kernel.watching_send) return true;
  io_uring_sqe* const entry = ring_.next_entry();
  if (entry == nullptr) return false;
  ::io_uring_prep_poll_add(entry, socket.fd, POLLOUT);
  ::io_uring_sqe_set_data64(entry, tagged(socket, watching_send));
  socket.kernel.watching_send = true;
  return true;
}

/// Of a socket that is being closed, whenever something has changed: closes it once the kernel has
/// nothing in hand. Only then does close(2) do what it says, and the memory may serve another.
void uring_reactor::end(uring_descriptor& socket) noexcept {
  auto& kernel = socket.kernel;
  if (kernel.receiving && !kernel.cancelled) {
    kernel.cancelled = cancel(tagged(socket, kernel.listening ? listening : receiving));
  }
  if (kernel.watching_send && !kernel.unwatched_send) {
    kernel.unwatched_send = cancel(tagged(socket, watching_send));
  }
  if (kernel.watching_reset && !kernel.unwatched_reset) {
    kernel.unwatched_reset = cancel(tagged(socket, watching_reset));
  }
  if (kernel.receiving || kernel.watching_send || kernel.watching_reset) {
    const bool asked = kernel.receiving == kernel.cancelled &&
                       kernel.watching_send == kernel.unwatched_send &&
                       kernel.watching_reset == kernel.unwatched_reset;
    if (!asked) static_cast<void>(mail_.post(socket, uring_descriptor::close));
    return;
  }
  if (socket.mailed()) return;  // comes back here from there
  for (chunk* each = socket.take(); each != nullptr;) {
    chunk* const next = each->next;
    if (each->what == chunk::kind::data) buffers_.add(*each);
    each = next;
  }
  ::close(socket.fd);
  recycle(socket);
}

bool uring_reactor::cancel(std::uint64_t operation) noexcept {
  io_uring_sqe* const entry = ring_.next_entry();
  if (entry == nullptr) return false;
  ::io_uring_prep_cancel64(entry, operation, 0);
  ::io_uring_sqe_set_data64(entry, cancelling);
  return true;
}

/// Completes at every edge, until it says that it was the last.
bool uring_reactor::watch(int fd, std::uint64_t operation) noexcept {
  io_uring_sqe* const entry = ring_.next_entry();
  if (entry == nullptr) return false;
  ::io_uring_prep_poll_multishot(entry, fd, POLLIN);
  ::io_uring_sqe_set_data64(entry, operation);
  return true;
}

// Any thread.

/// Edge-triggered and never read.
void uring_reactor::wake() noexcept {
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto written = ::write(wake_fd_, &one, sizeof one);
}

descriptor* uring_reactor::adopt(int fd, std::uint64_t accepted_by) noexcept {
  return add(fd, accepted_by, false);
}

descriptor* uring_reactor::listen(int fd, bool is_shared) noexcept {
  descriptor* const taken = add(fd, 0, true);
  if (taken != nullptr) taken->is_shared = is_shared;
  return taken;
}

descriptor* uring_reactor::add(int fd, std::uint64_t accepted_by, bool listening) noexcept {
  auto* const taken = static_cast<uring_descriptor*>(take_descriptor(fd, accepted_by));
  if (taken == nullptr) return nullptr;
  taken->begin(listening);
  request(*taken, uring_descriptor::receive);
  return taken;
}

}  // namespace bwos
