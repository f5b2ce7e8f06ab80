// SPDX-License-Identifier: Apache-2.0
// One edge-triggered epoll set, shared by the workers of a group: readiness itself can be taken by
// whoever is free.
#pragma once

#include <bwos/base/atomic.hpp>
#include "io/reactor.hpp"

namespace bwos {

class epoll_reactor final : public reactor {
 public:
  /// `shared`: several workers wait in it, so a wake leaves a counted token that one of them takes.
  /// Throws std::system_error.
  explicit epoll_reactor(bool shared);
  ~epoll_reactor() override;

  void start() override {}
  void poll(continuation_chain& sink, std::size_t at_most) noexcept override;
  bool wait(continuation_chain& sink) noexcept override;
  bool wait_aside(continuation_chain& sink, int at_most_ms) noexcept override;
  bool take_token() noexcept override;
  void wake() noexcept override;

  descriptor* adopt(int fd, std::uint64_t accepted_by) noexcept override;
  descriptor* listen(int fd, bool is_shared) noexcept override;
  void close(descriptor& socket) noexcept override;
  bool receive(descriptor& socket, const receive_room& room, received& result) noexcept override;
  bool wait(descriptor& socket, std::uint32_t direction, continuation& work) noexcept override;

 private:
  epoll_reactor(bool shared, int timer_fd);
  std::unique_ptr<descriptor> make_descriptor() override;
  descriptor* add(int fd, std::uint64_t accepted_by, std::uint32_t events) noexcept;
  bool reap(continuation_chain& sink, std::size_t at_most, int timeout_ms) noexcept;

  /// A descriptor reaches whoever reaps its events by way of the kernel, which orders that but is
  /// not part of the language's memory model (nor is it seen by TSan, at raw system calls).
  void publish_to_set() noexcept {
    // [epoll.publish] release: the descriptor is whole. Partner: [epoll.reap].
    published_.fetch_add(1, std::memory_order_release);
  }
  void look_into_set() const noexcept {
    // [epoll.reap] acquire: what was put into the set before its events were taken out of it.
    // Partner: [epoll.publish].
    static_cast<void>(published_.load(std::memory_order_acquire));
  }

  atomic<unsigned> published_{0};
  const int set_;
  const int wake_fd_;
  const int aside_;  // shared: a set of the tokens alone, for who waits aside
  const bool shared_;
};

}  // namespace bwos
