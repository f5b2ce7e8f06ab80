// SPDX-License-Identifier: Apache-2.0
#include "io/uring/ring.hpp"

#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <thread>

namespace bwos {
namespace {

constexpr unsigned deferred = IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN;  // Linux 6.1
constexpr unsigned cooperative = IORING_SETUP_COOP_TASKRUN;                             // 5.19
constexpr unsigned common = IORING_SETUP_TASKRUN_FLAG | IORING_SETUP_R_DISABLED;

}  // namespace

ring::ring(unsigned entries) {
  int result = -EINVAL;
  const auto set_up = [&]() noexcept {
    for (const unsigned form : {deferred, cooperative}) {
      io_uring_params params{};
      params.flags = form | common;
      result = ::io_uring_queue_init_params(entries, &ring_, &params);
      if (result != -EINVAL) return;  // it knows the flags
    }
  };
  // The kernel interrupts the thread that has made a ring when the ring is torn down: its waits
  // with a timeout fail with EINTR, long after the pool has gone. A thread that has ended is
  // spared.
  std::thread(set_up).join();
  if (result != 0) throw std::system_error(-result, std::system_category(), "io_uring_setup");
}

ring::~ring() {
  ::io_uring_queue_exit(&ring_);
}

int ring::enable() noexcept {
  // liburing 2.3 declares io_uring_enable_rings() but does not export it.
  const long result =
      ::syscall(SYS_io_uring_register, ring_.ring_fd, IORING_REGISTER_ENABLE_RINGS, nullptr, 0);
  return result < 0 ? -errno : 0;
}

io_uring_sqe* ring::next_entry() noexcept {
  io_uring_sqe* entry = ::io_uring_get_sqe(&ring_);
  if (entry == nullptr) {
    ::io_uring_submit(&ring_);  // makes room, or fails for now: no memory, or completions overflow
    entry = ::io_uring_get_sqe(&ring_);
  }
  return entry;
}

void ring::poll() noexcept {
  constexpr unsigned kernel_has_work = IORING_SQ_TASKRUN | IORING_SQ_CQ_OVERFLOW;
  if (::io_uring_sq_ready(&ring_) == 0 &&
      (IO_URING_READ_ONCE(*ring_.sq.kflags) & kernel_has_work) == 0) {
    return;
  }
  ::io_uring_submit_and_get_events(&ring_);  // what it cannot take now stays for the next turn
  // Refused, the kernel has posted no completion either, and one may be what sets memory free.
  if (is_refused()) ::io_uring_get_events(&ring_);
}

void ring::wait() noexcept {
  ::io_uring_submit_and_wait(&ring_, 1);  // an error is a short sleep: EINTR, EAGAIN, EBUSY
}

void ring::back_off() noexcept {
  if (!is_refused()) return;
  ::io_uring_get_events(&ring_);
  pollfd completions{.fd = ring_.ring_fd, .events = POLLIN, .revents = 0};
  ::poll(&completions, 1, retry_ms);
}

const char* ring::mode() const noexcept {
  return (ring_.flags & IORING_SETUP_DEFER_TASKRUN) != 0 ? "DEFER_TASKRUN" : "COOP_TASKRUN";
}

}  // namespace bwos
