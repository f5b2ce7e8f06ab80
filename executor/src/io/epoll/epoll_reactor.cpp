// SPDX-License-Identifier: Apache-2.0
#include "io/epoll/epoll_reactor.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <array>
#include <system_error>

#include "base/system_call.hpp"
#include "io/worker_context.hpp"

namespace bwos {
namespace {

int checked(int fd, const char* call) {
  if (fd < 0) throw std::system_error(errno, std::system_category(), call);
  return fd;
}

std::uint32_t bits_of(std::uint32_t events) noexcept {
  std::uint32_t bits = 0;
  if ((events & EPOLLIN) != 0) bits |= descriptor::readable;
  if ((events & EPOLLOUT) != 0) bits |= descriptor::writable;
  if ((events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0) bits |= descriptor::hangup;
  if ((events & (EPOLLHUP | EPOLLERR)) != 0) bits |= descriptor::writable;  // a send will tell
  if ((events & EPOLLERR) != 0) bits |= descriptor::failed;
  return bits;
}

/// The peer has reset the connection: nobody takes the answers to what it sent before, which the
/// kernel would give first. Returns the error behind that. 0: nothing was discarded. Either a late
/// event of another socket was met (descriptor.hpp, D3), or the peer had ended what it sends before
/// it reset the connection (EPIPE): its requests are whole, and may want no answer.
[[gnu::cold]] int discard_if_reset(int fd) noexcept {
  tcp_info now{};
  socklen_t size = sizeof now;
  if (::getsockopt(fd, IPPROTO_TCP, TCP_INFO, &now, &size) != 0 || now.tcpi_state != TCP_CLOSE) {
    return 0;
  }
  int error = 0;  // only of a closed one: a live one tells of what may pass (ICMP), too
  socklen_t error_size = sizeof error;
  ::getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &error_size);
  if (error == 0 || error == EPIPE) return 0;
  constexpr std::size_t most = std::size_t{1} << 30;
  long got = 0;
  do {  // ends: what has come is all there is
    // MSG_TRUNC discards (tcp(7)). ThreadSanitizer would take recv() to write to the null buffer.
    got = ::syscall(SYS_recvfrom, fd, nullptr, most, MSG_TRUNC | MSG_DONTWAIT, nullptr, nullptr);
  } while (got > 0);
  return error;
}

}  // namespace

epoll_reactor::epoll_reactor(bool shared)
    : epoll_reactor(shared, checked(::timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC),
                                    "timerfd_create")) {}

epoll_reactor::epoll_reactor(bool shared, int timer_fd)
    : reactor(timer_fd),
      set_(checked(::epoll_create1(EPOLL_CLOEXEC), "epoll_create1")),
      wake_fd_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC | (shared ? EFD_SEMAPHORE : 0))),
      aside_(shared ? ::epoll_create1(EPOLL_CLOEXEC) : -1),
      shared_(shared) {
  // A shared set's tokens are level-triggered: each ends one worker's wait, whenever that begins. A
  // private one's only waiter needs an edge, and never reads.
  epoll_event wake{.events = EPOLLIN | (shared ? 0U : EPOLLET), .data = {.ptr = this}};
  epoll_event due{.events = EPOLLIN | EPOLLET, .data = {.ptr = &timers}};
  if (wake_fd_ < 0 || (shared && aside_ < 0) ||
      ::epoll_ctl(set_, EPOLL_CTL_ADD, wake_fd_, &wake) != 0 ||
      ::epoll_ctl(set_, EPOLL_CTL_ADD, timer_fd, &due) != 0 ||
      (shared && ::epoll_ctl(aside_, EPOLL_CTL_ADD, wake_fd_, &wake) != 0)) {
    const int error = errno;
    ::close(set_);
    if (wake_fd_ >= 0) ::close(wake_fd_);
    if (aside_ >= 0) ::close(aside_);
    throw std::system_error(error, std::system_category(), "epoll reactor");
  }
}

epoll_reactor::~epoll_reactor() {
  for_each_open([](descriptor& each) { ::close(each.fd); });
  ::close(set_);
  ::close(wake_fd_);
  if (aside_ >= 0) ::close(aside_);
}

void epoll_reactor::poll(continuation_chain& sink, std::size_t at_most) noexcept {
  reap(sink, shared_ ? at_most : batch, 0);
}

bool epoll_reactor::wait(continuation_chain& sink) noexcept {
  return reap(sink, batch, -1);
}

/// A token wakes one waiter of each set, and the next while nobody has read it. Where more than a
/// poll's events are ready it may not be among them: what is seen aside counts.
bool epoll_reactor::wait_aside(continuation_chain& sink, int at_most_ms) noexcept {
  if (!shared_) return wait(sink);
  epoll_event event;
  const bool woken = system_call::epoll_wait(aside_, &event, 1, at_most_ms) > 0;
  return reap(sink, batch, 0) || woken;
}

/// Turns events into continuations; returns whether a wake's token is there. An interrupted wait is
/// an empty one.
bool epoll_reactor::reap(continuation_chain& sink, std::size_t at_most, int timeout_ms) noexcept {
  std::array<epoll_event, batch> events;
  const long count =
      system_call::epoll_wait(set_, events.data(), static_cast<int>(at_most), timeout_ms);
  if (count > 0) look_into_set();
  bool token = false;
  for (long i = 0; i < count; ++i) {
    const epoll_event& event = events[static_cast<std::size_t>(i)];
    if (event.data.ptr == this) {
      token = true;
    } else if (event.data.ptr == &timers) {
      timers.advance(sink);
    } else if (continuation* const work =
                   static_cast<descriptor*>(event.data.ptr)->notify(bits_of(event.events))) {
      sink.append(*work);
    }
  }
  return token;
}

bool epoll_reactor::take_token() noexcept {
  if (!shared_) return true;
  std::uint64_t one = 0;
  return ::read(wake_fd_, &one, sizeof one) == sizeof one;
}

void epoll_reactor::wake() noexcept {
  const std::uint64_t one = 1;
  // Fails only when 2^64 - 2 tokens are there already, which wake as well.
  [[maybe_unused]] const auto written = ::write(wake_fd_, &one, sizeof one);
}

std::unique_ptr<descriptor> epoll_reactor::make_descriptor() {
  return std::make_unique<descriptor>(*this);
}

descriptor* epoll_reactor::adopt(int fd, std::uint64_t accepted_by) noexcept {
  return add(fd, accepted_by, EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET);
}

descriptor* epoll_reactor::listen(int fd, bool is_shared) noexcept {
  descriptor* const taken = add(fd, 0, EPOLLIN | EPOLLET);
  if (taken != nullptr) taken->is_shared = is_shared;
  return taken;
}

descriptor* epoll_reactor::add(int fd, std::uint64_t accepted_by, std::uint32_t events) noexcept {
  descriptor* const taken = take_descriptor(fd, accepted_by);
  if (taken == nullptr) return nullptr;
  publish_to_set();
  epoll_event event{.events = events, .data = {.ptr = taken}};
  if (::epoll_ctl(set_, EPOLL_CTL_ADD, fd, &event) == 0) return taken;
  const int error = errno;
  recycle(*taken);
  errno = error;
  return nullptr;
}

void epoll_reactor::close(descriptor& socket) noexcept {
  end_deadline(socket);
  // The set watches the open file, which others keep open.
  if (socket.is_shared) ::epoll_ctl(set_, EPOLL_CTL_DEL, socket.fd, nullptr);
  ::close(socket.fd);  // leaves the set by itself; events already fetched are harmless
                       // (descriptor.hpp, D3)
  recycle(socket);
}

bool epoll_reactor::receive(descriptor& socket, const receive_room& room,
                            received& result) noexcept {
  const std::span<std::byte> into = bytes_for(room);
  constexpr std::uint32_t known = descriptor::readable | descriptor::hangup | descriptor::failed;
  std::uint32_t seen = socket.look() & known;
  if (seen != 0) seen |= socket.consume(known) & known;  // with what has come since
  if ((seen & descriptor::failed) != 0) [[unlikely]] {
    if (const int error = discard_if_reset(socket.fd); error != 0) {
      socket.more = true;  // the end comes behind it
      result.error = std::error_code(error, std::system_category());
      return true;
    }
  }
  if ((seen & descriptor::hangup) != 0) socket.ending = true;
  const long got = system_call::receive(socket.fd, into.data(), into.size());
  if (got < 0) socket.ending = false;  // it was not this socket's end (descriptor.hpp, D3)
  // A short read has emptied the socket; what arrives later is notified anew. Only a full buffer,
  // or an end whose edge has come with the data before it, needs another look. The end stays.
  socket.more = got == static_cast<long>(into.size()) || got == 0 || socket.ending;
  if (got == -EAGAIN) return false;
  if (got >= 0) {
    result.bytes = into.first(static_cast<std::size_t>(got));
  } else {
    result.error = std::error_code(static_cast<int>(-got), std::system_category());
  }
  return true;
}

bool epoll_reactor::wait(descriptor& socket, std::uint32_t direction, continuation& work) noexcept {
  return socket.wait(direction, work);
}

}  // namespace bwos
