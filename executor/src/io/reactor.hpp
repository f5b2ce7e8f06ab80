// SPDX-License-Identifier: Apache-2.0
// The kernel's side of descriptors: what a worker polls, parks in, and is woken through.
//
// A reactor appends ready continuations to a sink and never resumes one; it does not know the pool.
// An epoll reactor is shared by the workers of a group; an io_uring reactor belongs to one worker.
// Which thread may call what:
//   a worker of the reactor   start, poll, wait, wait_aside, take_token
//   any thread                wake, adopt, listen, close, the descriptor operations (by the
//   descriptor's runner)
#pragma once

#include <algorithm>
#include <bwos/stream.hpp>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include <bwos/base/atomic.hpp>
#include "base/continuation_chain.hpp"
#include "base/mutex.hpp"
#include "io/descriptor.hpp"
#include "io/queue_age.hpp"
#include "io/timer/timer_service.hpp"
#include "io/worker_context.hpp"

namespace bwos {

class reactor {
 public:
  virtual ~reactor();
  reactor(const reactor&) = delete;
  reactor& operator=(const reactor&) = delete;

  // The worker loop.

  /// Once on each worker of the reactor, before its first poll.
  virtual void start() = 0;
  /// About how much one poll takes.
  static constexpr std::size_t batch = 64;  // measured: one, or 8 growing to 64, was no better

  /// What is ready now, without waiting. A shared reactor leaves to others what is beyond
  /// `at_most` (1 to batch); due deadlines come in addition.
  virtual void poll(continuation_chain& sink, std::size_t at_most) noexcept = 0;
  /// Sleeps until something is ready, a deadline has passed or a wake's token is there; returns
  /// whether a token is.
  virtual bool wait(continuation_chain& sink) noexcept = 0;
  /// The same where others of the group look after what gets ready: sleeps until a wake's token is
  /// there or `at_most_ms` have passed, and takes what is ready then. A reactor of one worker has
  /// no others: wait().
  virtual bool wait_aside(continuation_chain& sink, int at_most_ms) noexcept;
  /// After wait() or wait_aside() returned true: takes one token; false: another worker of the
  /// group was faster.
  virtual bool take_token() noexcept = 0;
  /// One token: ends one worker's wait, now or when it begins.
  virtual void wake() noexcept = 0;

  // Descriptors.

  /// Takes over a connected, non-blocking socket and watches it. Null, with errno set, when the
  /// kernel refuses; then the socket is still the caller's. `accepted_by`: the
  /// number of its listener.
  virtual descriptor* adopt(int fd, std::uint64_t accepted_by) noexcept = 0;
  /// The same for a listening socket: `readable` is notified when there may be something to accept.
  /// `is_shared`: other processes have it, and close() changes nothing for them.
  virtual descriptor* listen(int fd, bool is_shared) noexcept = 0;
  /// Closes the socket and recycles the descriptor. The runner, which must not be waiting.
  virtual void close(descriptor& socket) noexcept = 0;
  /// Bytes, an end or an error into `result`: true. Nothing there yet: false, wait for waiting_in.
  /// The bytes are valid until the next receive on this descriptor or, epoll, until the worker runs
  /// another continuation; unless they lie in room.into.
  virtual bool receive(descriptor& socket, const receive_room& room, received& result) noexcept = 0;
  /// Suspends the runner, see descriptor::wait.
  virtual bool wait(descriptor& socket, std::uint32_t direction, continuation& work) noexcept = 0;

  /// The runner sets the deadline of its waits (milliseconds of steady_clock; wheel::never: none).
  void set_deadline(descriptor& socket, std::int64_t when_ms) noexcept;
  /// The runner met `expired`: true if the deadline has indeed passed; else it was an earlier one,
  /// now re-armed.
  bool deadline_passed(descriptor& socket) noexcept;

  /// Every descriptor in use, some of which may close meanwhile. Any thread.
  void for_each_open(const std::function<void(descriptor&)>& visit);

  /// When the pool ends, on one thread, the workers joined: everything that waits here, to be
  /// discarded.
  void drain(continuation_chain& sink);

  timer_service timers;
  queue_age age{timers};
  /// Connections that live here, for the choice of the least loaded: listener.cpp.
  [[nodiscard]] unsigned connections() const noexcept {
    // [reactor.connections] relaxed: a balance, not a limit. Partner: none (statistics).
    return connections_.load(std::memory_order_relaxed);
  }
  void count_connection(int change) noexcept {
    // [reactor.count_connection] relaxed: a balance, as above. Partner: none (statistics).
    connections_.fetch_add(static_cast<unsigned>(change), std::memory_order_relaxed);
  }

 protected:
  explicit reactor(int timer_fd) noexcept : timers(timer_fd) {}

  /// Where a worker receives into, for whom `room` was given.
  static std::span<std::byte> bytes_for(const receive_room& room) noexcept {
    if (!room.into.empty()) return room.into.first(std::min(room.into.size(), room.at_most));
    const std::span<std::byte> scratch = current_worker()->scratch;
    return scratch.first(std::min(scratch.size(), room.at_most));
  }

  /// A recycled or new descriptor for `fd`; null with errno ENOMEM.
  descriptor* take_descriptor(int fd, std::uint64_t accepted_by) noexcept;
  /// After the last operation on it has ended.
  void recycle(descriptor& socket) noexcept;
  /// Disarms its deadline.
  void end_deadline(descriptor& socket) noexcept;

  virtual std::unique_ptr<descriptor> make_descriptor() = 0;

 private:
  void arm_deadline(const timer_service::lock& guard, descriptor& socket) noexcept;

  atomic<unsigned> connections_{0};
  mutex slab_lock_;
  std::vector<std::unique_ptr<descriptor>> slab_;
  std::vector<descriptor*> free_;
};

}  // namespace bwos
