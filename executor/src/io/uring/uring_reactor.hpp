// SPDX-License-Identifier: Apache-2.0
// One io_uring of one worker: the kernel receives into the ring's buffers, the worker hands the
// continuations on, and a stolen one reads, sends and returns its buffer from where it is.
//
// What the kernel has in hand for a socket is known to the ring's thread alone. Others ask it
// through a mailbox; it does what is asked when it next looks at the ring.
//
// Where the ring has no buffer left, or a connection does not read what it was sent, the kernel
// stops receiving for that connection, and its runner receives by itself into its worker's scratch
// memory until the socket is empty. So nobody waits for a buffer that another connection keeps.
#pragma once

#include "io/reactor.hpp"
#include "io/uring/buffer_ring.hpp"
#include "io/uring/mailbox.hpp"
#include "io/uring/ring.hpp"
#include "io/uring/uring_descriptor.hpp"

namespace bwos {

class uring_reactor final : public reactor {
 public:
  /// Filled buffers that a connection may leave unread before the kernel is asked to stop; what it
  /// receives in one go (32 buffers at most, by its own limit) comes on top. Guessed.
  static constexpr std::uint32_t unread_max = 8;

  /// Throws std::system_error, std::bad_alloc.
  explicit uring_reactor(const options& settings);
  ~uring_reactor() override;

  void start() override;
  void poll(continuation_chain& sink, std::size_t at_most) noexcept override;
  bool wait(continuation_chain& sink) noexcept override;
  bool take_token() noexcept override { return true; }
  void wake() noexcept override;

  descriptor* adopt(int fd, std::uint64_t accepted_by) noexcept override;
  descriptor* listen(int fd, bool is_shared) noexcept override;
  void close(descriptor& socket) noexcept override;
  bool receive(descriptor& socket, const receive_room& room, received& result) noexcept override;
  bool wait(descriptor& socket, std::uint32_t direction, continuation& work) noexcept override;

 private:
  uring_reactor(const options& settings, int timer_fd);
  std::unique_ptr<descriptor> make_descriptor() override;
  descriptor* add(int fd, std::uint64_t accepted_by, bool listening) noexcept;

  // The runner.
  [[nodiscard]] bool on_own_thread() const noexcept;
  void request(uring_descriptor& socket, std::uint32_t what) noexcept;
  void give_back(chunk& each) noexcept;
  void give_back_current(uring_descriptor& socket) noexcept;
  bool receive_by_itself(uring_descriptor& socket, const receive_room& room,
                         received& result) noexcept;
  static void report_end(uring_descriptor& socket, received& result) noexcept;

  // The ring's thread.
  void prepare() noexcept;
  void read_mail() noexcept;
  void reap(continuation_chain& sink) noexcept;
  void complete(const io_uring_cqe& done, continuation_chain& sink) noexcept;
  void complete_receive(uring_descriptor& socket, const io_uring_cqe& done,
                        continuation_chain& sink) noexcept;
  void complete_watch_reset(uring_descriptor& socket) noexcept;
  void complete_listen(uring_descriptor& socket, const io_uring_cqe& done,
                       continuation_chain& sink) noexcept;
  void apply(uring_descriptor& socket, std::uint32_t what) noexcept;
  bool begin_receive(uring_descriptor& socket) noexcept;
  bool begin_watch_send(uring_descriptor& socket) noexcept;
  bool begin_watch_reset(uring_descriptor& socket) noexcept;
  void end(uring_descriptor& socket) noexcept;
  bool cancel(std::uint64_t operation) noexcept;
  bool watch(int fd, std::uint64_t operation) noexcept;

  buffer_ring buffers_;  // before the ring: outlives what the kernel may write
  ring ring_;
  mailbox mail_;
  const int timer_fd_;
  const int wake_fd_;
  bool wake_watched_ = false;
  bool timer_watched_ = false;
};

}  // namespace bwos
