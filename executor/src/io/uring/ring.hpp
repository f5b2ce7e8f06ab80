// SPDX-License-Identifier: Apache-2.0
// A ring as this library wants it: completions are posted when its own thread asks for them, never
// by an interrupt (plain flags cost 1.7 times the CPU). Mechanics only.
#pragma once

#include <liburing.h>

#include <cstdint>

namespace bwos {

class ring {
 public:
  /// Makes it, disabled, on any thread. Throws std::system_error.
  explicit ring(unsigned entries);
  ~ring();
  ring(const ring&) = delete;
  ring& operator=(const ring&) = delete;

  /// The calling thread becomes the only one that may use it (IORING_SETUP_SINGLE_ISSUER). Returns
  /// 0 or -errno.
  int enable() noexcept;

  /// A submission entry to fill; null when there is no room and the kernel takes none now.
  io_uring_sqe* next_entry() noexcept;

  /// Submits and lets the kernel post what is ready; no system call where there is neither.
  void poll() noexcept;
  /// Submits and sleeps until there is a completion, or a signal. Does not sleep where the kernel
  /// takes less than all: io_uring_enter(2) then returns at once.
  void wait() noexcept;
  /// Behind poll() or wait(): where the kernel has not taken all, sleeps until there is a
  /// completion, or for `retry_ms`. It has no memory for the rest, which a try at once would find
  /// no sooner.
  void back_off() noexcept;

  /// Calls `take` for each completion, at most as many as the completion queue holds.
  template <class Function>
  void reap(Function take) noexcept {
    io_uring_cqe* each = nullptr;
    unsigned head = 0;
    unsigned count = 0;
    io_uring_for_each_cqe(&ring_, head, each) {
      take(*each);
      ++count;
    }
    io_uring_cq_advance(&ring_, count);
  }

  [[nodiscard]] io_uring& raw() noexcept { return ring_; }
  /// How the kernel posts completions, for a log.
  [[nodiscard]] const char* mode() const noexcept;

 private:
  static constexpr int retry_ms = 1;  // a guess: what waits meanwhile is late by that
  /// The kernel has taken less than all.
  [[nodiscard]] bool is_refused() const noexcept { return ::io_uring_sq_ready(&ring_) != 0; }

  io_uring ring_{};
};

}  // namespace bwos
